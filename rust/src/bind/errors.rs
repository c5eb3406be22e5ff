//! Converts errors of kernels to those of `penstock.errors`.

use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError};
use pyo3::prelude::*;

use crate::core::errors::{RowFailure, Trouble};

/// The class `name` of penstock.errors; the errors' tree is Python's.
fn error_class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("penstock.core.errors")?.getattr(name)
}

/// RowError: the row, what was found, what to do.
pub fn row_error(py: Python<'_>, failure: RowFailure) -> PyErr {
    let made = error_class(py, "RowError").and_then(|class| class.call1((failure.row, failure.found, failure.remedy)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// DataError for damaged files, OSError for the system's complaints.
pub fn file_error(py: Python<'_>, path: &str, trouble: Trouble) -> PyErr {
    const ENOSPC: i32 = 28;
    match trouble {
        Trouble::System(error) => {
            PyOSError::new_err((error.raw_os_error().unwrap_or(5), error.to_string(), path.to_owned()))
        }
        Trouble::DiskFull { .. } => PyOSError::new_err((ENOSPC, trouble.to_string(), path.to_owned())),
        Trouble::Stopped => PyKeyboardInterrupt::new_err(()),
        Trouble::Data { place, found, remedy } => {
            let place = if place.is_empty() { String::new() } else { format!(", {place}") };
            let made = error_class(py, "DataError")
                .and_then(|class| class.call1((format!("{path}{place}: {found}; {remedy}"),)));
            made.map_or_else(|error| error, PyErr::from_value)
        }
    }
}
