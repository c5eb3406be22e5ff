//! Bindings of `http`.

use std::process;
use std::sync::Arc;
use std::time::Duration;

use numpy::{PyArray1, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::{Ids, misuse};
use crate::io::http::{Job, Landing, Outcome, Part, Place, Runner};

/// Memory that the responses to several requests are written to; see `http::Landing`.
#[pyclass(frozen)]
struct HttpLanding {
    landing: Arc<Landing>,
    /// The process whose threads write: in a forked child, a lock may be held by a thread that does not exist.
    process: u32,
    /// Keeps the memory alive until nothing is written to it any more.
    _memory: Py<PyArray1<u8>>,
}

#[pymethods]
impl HttpLanding {
    /// Request r has places first[r] … first[r + 1] - 1; bytes [source, source + size) of its response are written to out[at:].
    #[new]
    #[allow(unsafe_code, clippy::needless_pass_by_value)]
    fn new(
        out: Bound<'_, PyArray1<u8>>,
        first: Ids<'_>,
        source: Ids<'_>,
        at: Ids<'_>,
        size: Ids<'_>,
    ) -> PyResult<Self> {
        if !out.is_c_contiguous() || out.try_readwrite().is_err() {
            return Err(misuse("out must be contiguous and writable"));
        }
        let number = |value: &i64| usize::try_from(*value).map_err(|_| misuse("places must not be negative"));
        let first = first.as_slice()?.iter().map(number).collect::<PyResult<Vec<_>>>()?;
        let (source, at, size) = (source.as_slice()?, at.as_slice()?, size.as_slice()?);
        if source.len() != at.len() || at.len() != size.len() {
            return Err(misuse("source, at and size must be equally long"));
        }
        let places = source.iter().zip(at).zip(size).map(|((source, at), size)| {
            Ok(Place { source: number(source)? as u64, at: number(at)?, size: number(size)? })
        });
        let places = places.collect::<PyResult<Vec<_>>>()?;
        // SAFETY: this object keeps the array alive, and closes all requests before it releases it. The caller guarantees that
        // nothing reads the places of a request before it has ended, and that places do not overlap.
        let landing = unsafe { Landing::new(out.data(), out.len(), places, first) };
        let landing = landing.ok_or_else(|| misuse("a place does not lie in out"))?;
        Ok(Self { landing: Arc::new(landing), process: process::id(), _memory: out.unbind() })
    }

    /// Closes a request, for which nothing is written from now on; returns whether it was open.
    fn close(&self, request: usize) -> PyResult<bool> {
        if request >= self.landing.requests() {
            return Err(misuse("no such request"));
        }
        Ok(self.landing.close(request))
    }

    /// Seconds since a request was first made; None if it still waits.
    fn since(&self, request: usize) -> PyResult<Option<f64>> {
        if request >= self.landing.requests() {
            return Err(misuse("no such request"));
        }
        Ok(self.landing.since(request).map(|since| since.as_secs_f64()))
    }

    /// Closes all requests.
    fn close_all(&self) {
        if self.process == process::id() {
            self.landing.close_all();
        }
    }
}

impl Drop for HttpLanding {
    fn drop(&mut self) {
        self.close_all();
    }
}

/// (landing, request, from, length): bytes [from, from + length) of the job's response belong to that request.
type PyPart<'py> = (PyRef<'py, HttpLanding>, usize, u64, u64);
/// (ticket, url, version, size of the object, start, parts).
type PyJob<'py> = (u64, String, String, u64, u64, Vec<PyPart<'py>>);
/// (ticket, outcome, status, what was found, seconds, busy).
type PyDone = (u64, &'static str, u16, String, f64, bool);

/// Makes many requests at once in a few threads; see `http::Runner`.
#[pyclass(frozen)]
struct HttpRunner(Runner);

#[pymethods]
impl HttpRunner {
    #[new]
    #[pyo3(signature = (timeout_s, *, is_plain=false))]
    fn new(timeout_s: f64, is_plain: bool) -> PyResult<Self> {
        Ok(Self(Runner::new(duration(timeout_s)?, is_plain)))
    }

    /// Starts jobs, `limit` at once.
    fn submit(&self, py: Python<'_>, jobs: Vec<PyJob<'_>>, limit: usize) -> PyResult<()> {
        let jobs = jobs.into_iter().map(job).collect::<PyResult<Vec<_>>>()?;
        py.detach(|| self.0.submit(jobs, limit))?;
        Ok(())
    }

    /// The jobs that ended since the last call; waits for one, for `wake`, or for the timeout.
    fn wait(&self, py: Python<'_>, timeout_s: f64) -> PyResult<Vec<PyDone>> {
        let timeout = duration(timeout_s)?;
        let ended = py.detach(|| self.0.wait(timeout));
        let told = |outcome| match outcome {
            Outcome::Landed => ("landed", 0, String::new()),
            Outcome::Dropped => ("dropped", 0, String::new()),
            Outcome::Other(status) => ("other", status, String::new()),
            Outcome::Moved(status, location) => ("moved", status, location),
            Outcome::Unreachable(found) => ("unreachable", 0, found),
            Outcome::Slow => ("slow", 0, String::new()),
            Outcome::Broken(found) => ("broken", 0, found),
        };
        Ok(ended
            .into_iter()
            .map(|done| {
                let (how, status, found) = told(done.outcome);
                (done.ticket, how, status, found, done.seconds, done.busy)
            })
            .collect())
    }

    /// Makes the current or next `wait` return at once.
    fn wake(&self) {
        self.0.wake();
    }

    /// Drops waiting jobs and aborts those in flight.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }
}

fn duration(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|error| misuse(error.to_string()))
}

fn job((ticket, url, version, size, start, parts): PyJob<'_>) -> PyResult<Job> {
    let mut length = 0;
    let mut whole = Vec::with_capacity(parts.len());
    for (landing, request, from, bytes) in parts {
        if request >= landing.landing.requests() || from != length || bytes == 0 {
            return Err(misuse("the parts of a job must follow on each other"));
        }
        length += bytes;
        whole.push(Part { landing: Arc::clone(&landing.landing), request, from, length: bytes });
    }
    if length == 0 || start.checked_add(length).is_none_or(|end| end > size) {
        return Err(misuse("a job must lie in its object"));
    }
    Ok(Job { ticket, url, version, size, start, length, parts: whole })
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<HttpLanding>()?;
    module.add_class::<HttpRunner>()
}
