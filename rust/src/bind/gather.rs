//! Bindings of `gather`.

use numpy::PyUntypedArrayMethods;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use super::{Bytes, Ids, Out, check_spans, kernel_pool, misuse, slices};
use crate::core::gather;

/// Copies rows of `row_bytes` bytes, picked by number, into `out`.
#[pyfunction]
fn gather_rows(
    py: Python<'_>,
    source: Bytes<'_>,
    row_bytes: usize,
    rows: Ids<'_>,
    mut out: Out<'_>,
    threads: usize,
) -> PyResult<()> {
    if rows.len() * row_bytes != out.len() {
        return Err(misuse(format!("{} rows of {row_bytes} bytes do not fill {} bytes", rows.len(), out.len())));
    }
    let (source, rows, out) = (source.as_slice()?, rows.as_slice()?, out.as_slice_mut()?);
    let pool = kernel_pool(threads)?;
    py.detach(|| gather::rows(source, row_bytes, rows, out, Some(&pool))).map_err(|place| {
        PyIndexError::new_err(format!("row number {} at place {place} is outside the data", rows[place]))
    })
}

/// Joins the bytes of spans into `out`, which must be as long as all of them together.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn join_spans(
    py: Python<'_>,
    buffers: Vec<Bytes<'_>>,
    which: Ids<'_>,
    offset: Ids<'_>,
    length: Ids<'_>,
    mut out: Out<'_>,
) -> PyResult<()> {
    let buffers = slices(&buffers)?;
    let (which, offset, length, out) = (which.as_slice()?, offset.as_slice()?, length.as_slice()?, out.as_slice_mut()?);
    check_spans(which, offset, length)?;
    py.detach(|| gather::spans(&buffers, which, offset, length, out))
        .map_err(|row| PyIndexError::new_err(format!("span {row} does not lie in its buffer")))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(gather_rows, module)?)?;
    module.add_function(wrap_pyfunction!(join_spans, module)?)
}
