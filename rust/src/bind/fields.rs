//! Bindings of `fields`.

use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use super::errors::row_error;
use super::{Bytes, Ids, Out, check_spans, kernel_pool, misuse, slices};
use crate::records::fields::{self, Rows};

type Array<'py> = Bound<'py, PyArray1<i64>>;

/// Where the fields of records lie and how long they are, field after field; `widths` are fixed sizes, -1 where stated.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn split_fields<'py>(
    py: Python<'py>,
    buffers: Vec<Bytes<'py>>,
    which: Ids<'py>,
    offset: Ids<'py>,
    length: Ids<'py>,
    widths: Vec<i64>,
) -> PyResult<(Array<'py>, Array<'py>)> {
    let buffers = slices(&buffers)?;
    let (which, offset, length) = (which.as_slice()?, offset.as_slice()?, length.as_slice()?);
    check_spans(which, offset, length)?;
    let widths: Vec<Option<u64>> = widths.iter().map(|&width| u64::try_from(width).ok()).collect();
    let rows = Rows { buffers: &buffers, which, offset, length };
    let mut places = vec![0; which.len() * widths.len()];
    let mut lengths = places.clone();
    py.detach(|| fields::split(rows, &widths, &mut places, &mut lengths)).map_err(|failure| row_error(py, failure))?;
    Ok((places.into_pyarray(py), lengths.into_pyarray(py)))
}

/// The elements of lists of bytes, after `skip` bytes of header: how many each row has, and the place of each.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn list_elements<'py>(
    py: Python<'py>,
    buffers: Vec<Bytes<'py>>,
    which: Ids<'py>,
    offset: Ids<'py>,
    length: Ids<'py>,
    skip: usize,
) -> PyResult<(Array<'py>, Array<'py>, Array<'py>, Array<'py>)> {
    let buffers = slices(&buffers)?;
    let (which, offset, length) = (which.as_slice()?, offset.as_slice()?, length.as_slice()?);
    check_spans(which, offset, length)?;
    let rows = Rows { buffers: &buffers, which, offset, length };
    let found = py.detach(|| fields::elements(rows, skip)).map_err(|failure| row_error(py, failure))?;
    let (counts, which) = (found.counts.into_pyarray(py), found.which.into_pyarray(py));
    Ok((counts, which, found.offset.into_pyarray(py), found.length.into_pyarray(py)))
}

/// Copies what follows `prefix` in each row, `row_bytes` of it, to `out`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
fn copy_fields(
    py: Python<'_>,
    buffers: Vec<Bytes<'_>>,
    which: Ids<'_>,
    offset: Ids<'_>,
    length: Ids<'_>,
    prefix: &[u8],
    row_bytes: usize,
    mut out: Out<'_>,
    threads: usize,
) -> PyResult<()> {
    let buffers = slices(&buffers)?;
    let (which, offset, length) = (which.as_slice()?, offset.as_slice()?, length.as_slice()?);
    check_spans(which, offset, length)?;
    let out = out.as_slice_mut()?;
    if which.len().checked_mul(row_bytes) != Some(out.len()) {
        return Err(misuse(format!("{} rows of {row_bytes} bytes do not fill {} bytes", which.len(), out.len())));
    }
    let rows = Rows { buffers: &buffers, which, offset, length };
    let pool = kernel_pool(threads)?;
    py.detach(|| fields::copy(rows, prefix, row_bytes, out, Some(&pool))).map_err(|failure| row_error(py, failure))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(split_fields, module)?)?;
    module.add_function(wrap_pyfunction!(list_elements, module)?)?;
    module.add_function(wrap_pyfunction!(copy_fields, module)?)
}
