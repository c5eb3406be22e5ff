//! Files as Python lists them, for kernels that go through each: paths, and int64 sizes as long.

use numpy::PyArray1;
use pyo3::prelude::*;

use super::errors::file_error;
use super::{Ids, misuse};
use crate::core::errors::FileTrouble;
use crate::records::framing::unpack::{Packing, recognise_files};

/// Each path with its size.
pub fn listed<'a>(paths: &'a [String], sizes: &Ids<'_>) -> PyResult<Vec<(&'a str, u64)>> {
    let sizes = sizes.as_slice()?;
    if sizes.len() != paths.len() {
        return Err(misuse("paths and sizes must be equally long"));
    }
    Ok(paths.iter().map(String::as_str).zip(sizes.iter().map(|&size| size as u64)).collect())
}

/// The error of the one among these files that is in trouble.
pub fn listed_error<'a>(py: Python<'a>, paths: &'a [String]) -> impl FnOnce(FileTrouble) -> PyErr + 'a {
    move |FileTrouble { file, trouble }| file_error(py, &paths[file], trouble)
}

/// The number of how each file is packed.
pub fn packing_of<'py>(
    py: Python<'py>,
    paths: &[String],
    recognise: fn(&[u8]) -> Packing,
    threads: usize,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let packing = py.detach(|| recognise_files(paths, threads, recognise)).map_err(listed_error(py, paths))?;
    Ok(PyArray1::from_iter(py, packing.into_iter().map(|packing| packing as i64)))
}
