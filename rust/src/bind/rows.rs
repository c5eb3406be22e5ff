//! Bindings of `rows`.

use numpy::PyUntypedArrayMethods;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use super::{Bytes, Ids, Out, kernel_pool, misuse, slices};
use crate::core::rows;

/// Puts columns side by side: row i of `out` is row i of each column, `widths[c]` bytes each.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn pack_columns(
    py: Python<'_>,
    columns: Vec<Bytes<'_>>,
    widths: Vec<usize>,
    count: usize,
    mut out: Out<'_>,
    threads: usize,
) -> PyResult<()> {
    let columns = slices(&columns)?;
    check(count, &widths, columns.iter().map(|column| column.len()))?;
    let row_bytes: usize = widths.iter().sum();
    if count.checked_mul(row_bytes) != Some(out.len()) {
        return Err(misuse(format!("{count} rows of {row_bytes} bytes do not fill {} bytes", out.len())));
    }
    let (out, pool) = (out.as_slice_mut()?, kernel_pool(threads)?);
    py.detach(|| rows::pack(&columns, &widths, out, Some(&pool)));
    Ok(())
}

/// Row i of column c goes to `outs[c]` from row `numbers[i]` of `parts[which[i]]`, whose rows lie as `pack_columns` puts them.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn unpack_rows(
    py: Python<'_>,
    parts: Vec<Bytes<'_>>,
    widths: Vec<usize>,
    which: Ids<'_>,
    numbers: Ids<'_>,
    mut outs: Vec<Out<'_>>,
    threads: usize,
) -> PyResult<()> {
    if numbers.len() != which.len() {
        return Err(misuse("which and numbers must be equally long"));
    }
    check(numbers.len(), &widths, outs.iter().map(|out| out.len()))?;
    let parts = slices(&parts)?;
    let (which, numbers) = (which.as_slice()?, numbers.as_slice()?);
    let outs = outs.iter_mut().map(|out| out.as_slice_mut()).collect::<Result<Vec<_>, _>>()?;
    let pool = kernel_pool(threads)?;
    py.detach(|| rows::unpack(&parts, &widths, which, numbers, outs, Some(&pool))).map_err(|place| {
        PyIndexError::new_err(format!("row {} of part {} is not there (place {place})", numbers[place], which[place]))
    })
}

/// Whether columns of these lengths hold `count` rows each.
fn check(count: usize, widths: &[usize], lengths: impl ExactSizeIterator<Item = usize>) -> PyResult<()> {
    if lengths.len() != widths.len() {
        return Err(misuse(format!("{} columns with {} widths", lengths.len(), widths.len())));
    }
    for (width, length) in widths.iter().zip(lengths) {
        if count.checked_mul(*width) != Some(length) {
            return Err(misuse(format!("{count} rows of {width} bytes are not {length} bytes")));
        }
    }
    Ok(())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(pack_columns, module)?)?;
    module.add_function(wrap_pyfunction!(unpack_rows, module)?)
}
