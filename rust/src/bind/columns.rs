//! Columns that parsers of records make, to Python and back.

use numpy::IntoPyArray;
use pyo3::prelude::*;
use pyo3::types::PyList;
use rayon::ThreadPool;

use super::errors::row_error;
use super::{Bytes, Ids, Out, check_spans, kernel_pool, misuse, slices};
use crate::core::columns::{Filled, Records};
use crate::core::errors::RowFailure;

/// Parses the records that lie at (buffers, which, offset, length) into columns, with the interpreter released. outs: the bytes
/// of each fixed column's array, None for the others, and the bytes of a row of each. For what it gives see
/// [`filled_columns`].
pub fn parse_records<'py>(
    py: Python<'py>,
    (buffers, which, offset, length): (&[Bytes<'py>], Ids<'py>, Ids<'py>, Ids<'py>),
    (outs, row_bytes): (&mut [Option<Out<'py>>], impl Iterator<Item = usize>),
    threads: usize,
    parse: impl FnOnce(Records<'_>, Vec<&mut [u8]>, Option<&ThreadPool>) -> Result<Vec<Filled>, RowFailure> + Send,
) -> PyResult<Bound<'py, PyList>> {
    let buffers = slices(buffers)?;
    let (which, offset, length) = (which.as_slice()?, offset.as_slice()?, length.as_slice()?);
    check_spans(which, offset, length)?;
    let outs = out_slices(outs)?;
    check_outs(which.len(), row_bytes, &outs)?;
    let records = Records { buffers: &buffers, which, offset, length };
    let pool = if threads > 1 { Some(kernel_pool(threads)?) } else { None };
    let filled = py.detach(|| parse(records, outs, pool.as_deref())).map_err(|failure| row_error(py, failure))?;
    filled_columns(py, filled)
}

/// The outputs of the fixed columns; empty for the others.
fn out_slices<'a>(outs: &'a mut [Option<Out<'_>>]) -> PyResult<Vec<&'a mut [u8]>> {
    let slices = outs.iter_mut().map(|out| match out {
        Some(out) => out.as_slice_mut(),
        None => Ok(&mut [][..]),
    });
    Ok(slices.collect::<Result<Vec<_>, _>>()?)
}

/// Whether there is one output a column, of the bytes of all its rows.
fn check_outs(rows: usize, row_bytes: impl Iterator<Item = usize>, outs: &[&mut [u8]]) -> PyResult<()> {
    if row_bytes.map(|bytes| rows * bytes).eq(outs.iter().map(|out| out.len())) {
        return Ok(());
    }
    Err(misuse("outs must have one array a column, of the bytes of all its rows"))
}

/// For each column: None for fixed, (which, offset, length) for spans, (values' bytes, offsets) for ragged,
/// (bytes, ends, offsets) for texts, (bytes, ends, steps, offsets) for nested.
fn filled_columns(py: Python<'_>, filled: Vec<Filled>) -> PyResult<Bound<'_, PyList>> {
    PyList::new(py, filled.into_iter().map(|filled| to_python(py, filled)).collect::<PyResult<Vec<_>>>()?)
}

fn to_python<'py>(py: Python<'py>, filled: Filled) -> PyResult<Bound<'py, PyAny>> {
    Ok(match filled {
        Filled::Fixed => py.None().into_bound(py),
        Filled::Spans { which, offset, length } => {
            (which.into_pyarray(py), offset.into_pyarray(py), length.into_pyarray(py)).into_pyobject(py)?.into_any()
        }
        Filled::Ragged { values, offsets } => {
            (values.into_pyarray(py), offsets.into_pyarray(py)).into_pyobject(py)?.into_any()
        }
        Filled::Texts { data, ends, offsets } => {
            (data.into_pyarray(py), ends.into_pyarray(py), offsets.into_pyarray(py)).into_pyobject(py)?.into_any()
        }
        Filled::Nested { data, ends, steps, offsets } => {
            let parts =
                (data.into_pyarray(py), ends.into_pyarray(py), steps.into_pyarray(py), offsets.into_pyarray(py));
            parts.into_pyobject(py)?.into_any()
        }
    })
}
