//! The Python module `penstock._core`: every binding converts, detaches from the interpreter, calls a pure Rust
//! function and converts back. One file per kernel; this file only lists them.

use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

mod entry_points;
mod files;
mod gather;
mod image;
mod order;
mod tfrecord;

/// A one-dimensional, contiguous array of int64 that a kernel reads.
pub type Ids<'py> = PyReadonlyArray1<'py, i64>;
/// A one-dimensional, contiguous array of bytes that a kernel reads.
pub type Bytes<'py> = PyReadonlyArray1<'py, u8>;
/// A one-dimensional, contiguous array of bytes that a kernel writes.
pub type Out<'py> = PyReadwriteArray1<'py, u8>;

/// What a kernel says of arguments that do not fit together: a mistake of the caller, not of the data.
pub fn misuse(found: impl Into<String>) -> PyErr {
    PyValueError::new_err(found.into())
}

/// The shared pool of kernels with `threads` threads.
pub fn kernel_pool(threads: usize) -> PyResult<std::sync::Arc<rayon::ThreadPool>> {
    crate::pool::shared(threads).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    entry_points::register(module)?;
    files::register(module)?;
    gather::register(module)?;
    image::register(module)?;
    order::register(module)?;
    tfrecord::register(module)
}
