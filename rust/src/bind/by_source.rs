//! Bindings of `by_source`.

use numpy::PyArray1;
use pyo3::prelude::*;

use super::{Ids, detach_for, misuse};
use crate::core::by_source;

type NewIds<'py> = Bound<'py, PyArray1<i64>>;

/// Rows by the sources that have their ids: their places, their samples, and where those of each source begin.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn divide_rows<'py>(
    py: Python<'py>,
    ids: Ids<'py>,
    first_ids: Ids<'py>,
) -> PyResult<(NewIds<'py>, NewIds<'py>, NewIds<'py>)> {
    let (ids, first_ids) = (ids.as_slice()?, first_ids.as_slice()?);
    let found = detach_for(py, ids.len(), || by_source::divide(ids, first_ids))
        .map_err(|place| misuse(format!("no source has the id {} (place {place})", ids[place])))?;
    let [places, samples, edges] =
        [found.places, found.samples, found.edges].map(|numbers| PyArray1::from_vec(py, numbers));
    Ok((places, samples, edges))
}

/// The part of each row, and its number there, where row i of part p is that at `places[p][i]`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn sources_of<'py>(py: Python<'py>, places: Vec<Ids<'py>>) -> PyResult<(NewIds<'py>, NewIds<'py>)> {
    let places = places.iter().map(|places| places.as_slice()).collect::<Result<Vec<_>, _>>()?;
    let rows = places.iter().map(|places| places.len()).sum();
    let (which, row) = detach_for(py, rows, || by_source::sources_of(&places, rows))
        .map_err(|part| misuse(format!("part {part}: its places are not among {rows} rows, each once")))?;
    Ok((PyArray1::from_vec(py, which), PyArray1::from_vec(py, row)))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(divide_rows, module)?)?;
    module.add_function(wrap_pyfunction!(sources_of, module)?)
}
