//! Progress of long native calls.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::records::framing::Progress;

/// How far a call has come that runs in another thread; `stop` makes it end early, with KeyboardInterrupt.
#[pyclass(frozen, name = "WorkProgress", module = "penstock._core")]
pub struct WorkProgress(pub Arc<Progress>);

#[pymethods]
impl WorkProgress {
    #[new]
    fn new() -> Self {
        Self(Arc::default())
    }

    /// Bytes done so far.
    #[getter]
    fn done(&self) -> u64 {
        self.0.done()
    }

    fn stop(&self) {
        self.0.stop();
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<WorkProgress>()
}
