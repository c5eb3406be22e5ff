//! The Python module `penstock._core`: every binding converts, detaches from the interpreter, calls a pure Rust
//! function and converts back. One file per kernel; this file only lists them.

mod image;

use numpy::PyReadonlyArray1;
use pyo3::prelude::*;

/// A one-dimensional, contiguous array of int64 that a kernel reads.
pub type Ids<'py> = PyReadonlyArray1<'py, i64>;
/// A contiguous array of bytes that a kernel reads.
pub type Bytes<'py> = PyReadonlyArray1<'py, u8>;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    image::register(module)
}
