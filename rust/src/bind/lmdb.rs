//! Bindings of `framing::lmdb`.

use std::fs::File;
use std::os::unix::fs::FileExt;

use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use super::progress::WorkProgress;
use super::trouble::file_error;
use crate::framing::{Trouble, lmdb};

type Array<'py, T> = Bound<'py, PyArray1<T>>;
type Found<'py> = (Array<'py, u8>, Array<'py, i64>, Array<'py, i64>, Array<'py, i64>);

fn read_index(
    path: &str,
    database: Option<&[u8]>,
    record_bytes: u64,
    progress: &WorkProgress,
) -> Result<lmdb::Index, Trouble> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let read = |at, out: &mut [u8]| Ok(file.read_exact_at(out, at)?);
    lmdb::index(read, size, database, record_bytes, &progress.0)
}

/// The records of an LMDB file in the order of their keys: all keys, where each ends, where each value begins, and its length.
#[pyfunction]
#[pyo3(signature = (path, database, *, record_bytes, progress))]
fn index_lmdb<'py>(
    py: Python<'py>,
    path: &str,
    database: Option<&[u8]>,
    record_bytes: u64,
    progress: &WorkProgress,
) -> PyResult<Found<'py>> {
    let found = py
        .detach(|| read_index(path, database, record_bytes, progress))
        .map_err(|trouble| file_error(py, path, trouble))?;
    Ok((
        found.keys.into_pyarray(py),
        found.key_ends.into_pyarray(py),
        found.offset.into_pyarray(py),
        found.length.into_pyarray(py),
    ))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(index_lmdb, module)?)
}
