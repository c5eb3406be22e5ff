//! Bindings of `signals`.

use pyo3::prelude::*;

use crate::io::signals;

/// A descriptor that can be read as long as one of these signals is pending; `descriptor` is one that was made before, or -1.
#[pyfunction]
fn pending_signals(descriptor: i32, numbers: Vec<i32>) -> PyResult<i32> {
    Ok(signals::pending(descriptor, &numbers)?)
}

/// The calling thread takes short turns on a CPU, and gets one soon after it was woken.
#[pyfunction]
fn take_short_turns() -> PyResult<()> {
    Ok(signals::take_short_turns()?)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(pending_signals, module)?)?;
    module.add_function(wrap_pyfunction!(take_short_turns, module)?)
}
