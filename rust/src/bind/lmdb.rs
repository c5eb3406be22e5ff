//! Bindings of `framing::lmdb`.

use std::cell::RefCell;
use std::os::unix::fs::FileExt;
use std::path::Path;

use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use super::errors::file_error;
use super::progress::WorkProgress;
use crate::core::errors::Trouble;
use crate::io::stat::open_regular;
use crate::records::framing::lmdb;

type Array<'py, T> = Bound<'py, PyArray1<T>>;
type Found<'py> = (Array<'py, u8>, Array<'py, i64>, Array<'py, i64>, Array<'py, i64>, Array<'py, i64>, Array<'py, i64>);

/// What was read of a file: where each read began, and its bytes.
#[derive(Default)]
struct Reads {
    offset: Vec<i64>,
    length: Vec<i64>,
}

fn read_index(
    path: &str,
    database: Option<&[u8]>,
    record_bytes: u64,
    progress: &WorkProgress,
) -> Result<(lmdb::Index, Reads), Trouble> {
    let file = open_regular(Path::new(path))?;
    let size = file.metadata()?.len();
    let reads = RefCell::new(Reads::default());
    let read = |at: u64, out: &mut [u8]| {
        let mut reads = reads.borrow_mut();
        reads.offset.push(at.cast_signed());
        reads.length.push(out.len() as i64);
        Ok(file.read_exact_at(out, at)?)
    };
    let found = lmdb::index(read, size, database, record_bytes, &progress.0)?;
    Ok((found, reads.into_inner()))
}

/// The records of an LMDB file in the order of their keys: all keys, where each ends, where each value begins, and its length; then
/// the offset and length of every part of the file that was read.
#[pyfunction]
#[pyo3(signature = (path, database, *, record_bytes, progress))]
fn index_lmdb<'py>(
    py: Python<'py>,
    path: &str,
    database: Option<&[u8]>,
    record_bytes: u64,
    progress: &WorkProgress,
) -> PyResult<Found<'py>> {
    let (found, reads) = py
        .detach(|| read_index(path, database, record_bytes, progress))
        .map_err(|trouble| file_error(py, path, trouble))?;
    Ok((
        found.keys.into_pyarray(py),
        found.key_ends.into_pyarray(py),
        found.offset.into_pyarray(py),
        found.length.into_pyarray(py),
        reads.offset.into_pyarray(py),
        reads.length.into_pyarray(py),
    ))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(index_lmdb, module)?)
}
