//! The Python module `penstock._core`: every binding converts, detaches from the interpreter, calls a pure Rust
//! function and converts back. One file per kernel; this file only lists them.

use pyo3::prelude::*;

#[pymodule]
fn _core(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
