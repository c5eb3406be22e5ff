//! Bindings of `draws`.

use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;

use super::{Ids, detach_for, misuse};
use crate::core::draws;

type Keys<'py> = PyReadonlyArray1<'py, u64>;

/// Puts into `out` the key of every row: what `key` and its id come to.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn row_keys(py: Python<'_>, ids: Ids<'_>, key: u64, mut out: PyReadwriteArray1<'_, u64>) -> PyResult<()> {
    let (ids, out) = (ids.as_slice()?, out.as_slice_mut()?);
    if ids.len() != out.len() {
        return Err(misuse("out must have a place for every id"));
    }
    detach_for(py, ids.len(), || draws::row_keys(ids, key, out));
    Ok(())
}

/// Fills the rows of `out` with numbers of a distribution; None, or the place of the first whose parameters give none.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn draw_floats(
    py: Python<'_>,
    kind: &str,
    keys: Keys<'_>,
    call: u64,
    first: PyReadonlyArray1<'_, f64>,
    second: PyReadonlyArray1<'_, f64>,
    mut out: PyReadwriteArray1<'_, f64>,
) -> PyResult<Option<usize>> {
    let kind = draws::Kind::named(kind).ok_or_else(|| misuse(format!("no distribution {kind:?}")))?;
    let (keys, out) = (keys.as_slice()?, out.as_slice_mut()?);
    let parameters = [first.as_slice()?, second.as_slice()?];
    check(keys.len(), out.len(), parameters.map(<[f64]>::len))?;
    Ok(detach_for(py, out.len(), || draws::fill_floats(kind, keys, call, parameters, out)).err())
}

/// Fills the rows of `out` with numbers in [0, 1).
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn draw_uniform_f32(py: Python<'_>, keys: Keys<'_>, call: u64, mut out: PyReadwriteArray1<'_, f32>) -> PyResult<()> {
    let (keys, out) = (keys.as_slice()?, out.as_slice_mut()?);
    check(keys.len(), out.len(), [1, 1])?;
    detach_for(py, out.len(), || draws::fill_uniform_f32(keys, call, out));
    Ok(())
}

/// Fills the rows of `out` with integers from `low` on, `count` many (0: all), modulo 2⁶⁴.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn draw_integers(
    py: Python<'_>,
    keys: Keys<'_>,
    call: u64,
    low: Keys<'_>,
    count: Keys<'_>,
    mut out: PyReadwriteArray1<'_, u64>,
) -> PyResult<()> {
    let (keys, out) = (keys.as_slice()?, out.as_slice_mut()?);
    let (low, count) = (low.as_slice()?, count.as_slice()?);
    check(keys.len(), out.len(), [low.len(), count.len()])?;
    detach_for(py, out.len(), || draws::fill_integers(keys, call, low, count, out));
    Ok(())
}

fn check(rows: usize, numbers: usize, parameters: [usize; 2]) -> PyResult<()> {
    if (rows > 0 && !numbers.is_multiple_of(rows)) || (rows == 0 && numbers > 0) {
        return Err(misuse(format!("{numbers} numbers are no whole number for each of {rows} rows")));
    }
    if parameters.iter().any(|&given| given != 1 && given != numbers) {
        return Err(misuse("a parameter is one for all numbers, or one for each"));
    }
    Ok(())
}

/// Adds this file's functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(row_keys, module)?)?;
    module.add_function(wrap_pyfunction!(draw_floats, module)?)?;
    module.add_function(wrap_pyfunction!(draw_uniform_f32, module)?)?;
    module.add_function(wrap_pyfunction!(draw_integers, module)?)
}
