//! The Python module `penstock._core`: every binding converts, detaches from the interpreter, calls a pure Rust
//! function and converts back. One file per kernel; this file only lists them.

use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadwriteArray1};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

mod along;
mod boxes;
mod by_source;
mod columns;
mod crc32c;
mod draws;
mod entry_points;
mod errors;
mod extents;
mod fields;
mod file_lists;
mod files;
mod gather;
mod http;
mod image;
mod image_views;
mod json;
mod lines;
mod lmdb;
mod mixed;
mod order;
mod pack;
mod parquet;
mod progress;
mod recordio;
mod rows;
mod signals;
mod table;
mod tar;
mod text;
mod text_cleaning;
mod text_masking;
mod tfrecord;
mod watched;
mod windows;

/// A one-dimensional, contiguous array of int64 that a kernel reads.
pub type Ids<'py> = PyReadonlyArray1<'py, i64>;
/// A one-dimensional, contiguous array of bytes that a kernel reads.
pub type Bytes<'py> = PyReadonlyArray1<'py, u8>;
/// A one-dimensional, contiguous array of bytes that a kernel writes.
pub type Out<'py> = PyReadwriteArray1<'py, u8>;

/// The error of arguments that do not fit together: a bug of the caller, not of the data.
pub fn misuse(found: impl Into<String>) -> PyErr {
    PyValueError::new_err(found.into())
}

/// The shared pool of kernels with `threads` threads. Called only with the interpreter held: a process that forks holds it, so
/// that no child finds the list of pools locked by a thread that it does not have.
pub fn kernel_pool(threads: usize) -> PyResult<std::sync::Arc<rayon::ThreadPool>> {
    crate::core::pool::shared(threads).map_err(|error| no_threads(threads, &error))
}

/// The pool that waits for files, with `threads` threads. As for `kernel_pool`, only with the interpreter held.
pub fn io_pool(threads: usize) -> PyResult<std::sync::Arc<rayon::ThreadPool>> {
    crate::core::pool::io(threads).map_err(|error| no_threads(threads, &error))
}

fn no_threads(threads: usize, error: &rayon::ThreadPoolBuildError) -> PyErr {
    PyRuntimeError::new_err(format!("cannot start {threads} threads ({error}); use fewer: Loader(cpus=…)"))
}

/// The bytes of several arrays.
pub fn slices<'a>(buffers: &'a [Bytes<'_>]) -> PyResult<Vec<&'a [u8]>> {
    Ok(buffers.iter().map(|buffer| buffer.as_slice()).collect::<Result<_, _>>()?)
}

/// Whether three arrays can be the places of spans.
pub fn check_spans(which: &[i64], offset: &[i64], length: &[i64]) -> PyResult<()> {
    if offset.len() == which.len() && length.len() == which.len() {
        return Ok(());
    }
    Err(misuse("which, offset and length must be equally long"))
}

/// So many rows take less time than releasing the interpreter and waiting for it.
const FEW_ROWS: usize = 1024;

/// Runs arithmetic on `rows` rows, detached from the interpreter unless they are few. What may wait for a file must detach always.
pub fn detach_for<T: pyo3::marker::Ungil>(
    py: Python<'_>,
    rows: usize,
    work: impl FnOnce() -> T + pyo3::marker::Ungil,
) -> T {
    if rows <= FEW_ROWS { work() } else { py.detach(work) }
}

/// What rust-numpy sets up at the first array. Done by a thread in the midst of a fork, it is never done in the child, which waits
/// for it forever.
fn begin_numpy(py: Python<'_>) -> PyResult<()> {
    PyArray1::<u8>::zeros(py, 1, false).try_readwrite().map(drop)?;
    Ok(())
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    begin_numpy(module.py())?;
    crc32c::register(module)?;
    by_source::register(module)?;
    draws::register(module)?;
    entry_points::register(module)?;
    fields::register(module)?;
    files::register(module)?;
    gather::register(module)?;
    http::register(module)?;
    image::register(module)?;
    image_views::register(module)?;
    along::register(module)?;
    boxes::register(module)?;
    lmdb::register(module)?;
    json::register(module)?;
    extents::register(module)?;
    lines::register(module)?;
    mixed::register(module)?;
    order::register(module)?;
    pack::register(module)?;
    parquet::register(module)?;
    progress::register(module)?;
    recordio::register(module)?;
    tar::register(module)?;
    rows::register(module)?;
    signals::register(module)?;
    table::register(module)?;
    text::register(module)?;
    text_cleaning::register(module)?;
    text_masking::register(module)?;
    tfrecord::register(module)?;
    windows::register(module)
}
