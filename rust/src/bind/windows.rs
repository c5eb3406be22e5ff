//! Bindings of `windows` and `mapped`.

use std::path::PathBuf;

use numpy::{PyArray1, PyUntypedArrayMethods};
use pyo3::exceptions::{PyIndexError, PyOSError};
use pyo3::prelude::*;

use super::{Bytes, Ids, Out, kernel_pool, misuse, slices};
use crate::mapped::MappedFiles as Files;
use crate::windows::{Conversion, copy_windows as copy};

/// The conversion between two NumPy types, if rows of `row_bytes` bytes fill `out` with it.
fn conversion(
    which: &Ids<'_>,
    start: &Ids<'_>,
    row_bytes: usize,
    types: (&str, &str),
    out: &Out<'_>,
) -> PyResult<Conversion> {
    let (stored, wanted) = types;
    let found = Conversion::between(stored, wanted)
        .ok_or_else(|| misuse(format!("values of {stored} do not become {wanted} without a loss")))?;
    let filled = found.wanted_bytes(row_bytes).and_then(|width| which.len().checked_mul(width));
    if which.len() != start.len() || filled != Some(out.len()) {
        let found = format!(
            "{} rows of {row_bytes} bytes of {stored} do not fill {} bytes of {wanted}",
            which.len(),
            out.len()
        );
        return Err(misuse(found));
    }
    Ok(found)
}

fn outside(place: usize, which: &[i64], start: &[i64]) -> PyErr {
    PyIndexError::new_err(format!("byte {} of part {} is not there (place {place})", start[place], which[place]))
}

/// Copies the `row_bytes` bytes from byte `start[i]` of `parts[which[i]]` to place i of `out`, converted from one type to another.
#[pyfunction]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
fn copy_windows(
    py: Python<'_>,
    parts: Vec<Bytes<'_>>,
    which: Ids<'_>,
    start: Ids<'_>,
    row_bytes: usize,
    stored: &str,
    wanted: &str,
    mut out: Out<'_>,
    threads: usize,
) -> PyResult<()> {
    let conversion = conversion(&which, &start, row_bytes, (stored, wanted), &out)?;
    let parts = slices(&parts)?;
    let (which, start, out) = (which.as_slice()?, start.as_slice()?, out.as_slice_mut()?);
    let pool = kernel_pool(threads)?;
    let part = |number: usize| parts.get(number).copied();
    py.detach(|| copy(part, which, start, row_bytes, conversion, out, Some(&pool)))
        .map_err(|place| outside(place, which, start))
}

/// Local files that are mapped into memory when they are first needed.
#[pyclass(frozen, name = "MappedFiles", module = "penstock._core")]
struct MappedFiles {
    files: Files,
    made_of: (Vec<PathBuf>, Vec<i64>),
}

#[pymethods]
impl MappedFiles {
    #[new]
    #[allow(clippy::needless_pass_by_value)]
    fn new(paths: Vec<PathBuf>, sizes: Ids<'_>) -> PyResult<Self> {
        if paths.len() != sizes.len() {
            return Err(misuse("paths and sizes must be equally long"));
        }
        let made_of = (paths.clone(), sizes.as_slice()?.to_vec());
        let sizes = made_of.1.iter().map(|&size| u64::try_from(size).unwrap_or(0));
        Ok(Self { files: Files::new(paths.into_iter().zip(sizes).collect()), made_of })
    }

    /// For pickle: another process maps the files again.
    fn __getnewargs__<'py>(&self, py: Python<'py>) -> (Vec<PathBuf>, Bound<'py, PyArray1<i64>>) {
        (self.made_of.0.clone(), PyArray1::from_slice(py, &self.made_of.1))
    }

    /// Like `copy_windows`, from files instead of buffers. OSError(path, found) for a file that is missing or of another size.
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn copy_windows(
        &self,
        py: Python<'_>,
        which: Ids<'_>,
        start: Ids<'_>,
        row_bytes: usize,
        stored: &str,
        wanted: &str,
        mut out: Out<'_>,
        threads: usize,
    ) -> PyResult<()> {
        let conversion = conversion(&which, &start, row_bytes, (stored, wanted), &out)?;
        let (which, start, out) = (which.as_slice()?, start.as_slice()?, out.as_slice_mut()?);
        let pool = kernel_pool(threads)?;
        py.detach(|| self.files.check(which)).map_err(|error| PyOSError::new_err((error.path, error.found)))?;
        py.detach(|| copy(|number| self.files.bytes(number), which, start, row_bytes, conversion, out, Some(&pool)))
            .map_err(|place| outside(place, which, start))
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<MappedFiles>()?;
    module.add_function(wrap_pyfunction!(copy_windows, module)?)
}
