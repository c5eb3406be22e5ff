//! Bindings of `pick`.

use numpy::PyUntypedArrayMethods;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use super::{Bytes, Ids, Out, kernel_pool, misuse};
use crate::pick;

/// Copies row `rows[i]` of `row_bytes` bytes of `parts[which[i]]` to place i of `out`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn pick_rows(
    py: Python<'_>,
    parts: Vec<Bytes<'_>>,
    row_bytes: usize,
    which: Ids<'_>,
    rows: Ids<'_>,
    mut out: Out<'_>,
    threads: usize,
) -> PyResult<()> {
    if rows.len() != which.len() || rows.len().checked_mul(row_bytes) != Some(out.len()) {
        return Err(misuse(format!("{} rows of {row_bytes} bytes do not fill {} bytes", rows.len(), out.len())));
    }
    let parts = parts.iter().map(|part| part.as_slice()).collect::<Result<Vec<_>, _>>()?;
    let (which, rows, out) = (which.as_slice()?, rows.as_slice()?, out.as_slice_mut()?);
    let pool = kernel_pool(threads)?;
    py.detach(|| pool.install(|| pick::pick(&parts, row_bytes, which, rows, out))).map_err(|place| {
        PyIndexError::new_err(format!("row {} of part {} is not there (place {place})", rows[place], which[place]))
    })
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(pick_rows, module)?)
}
