//! Bindings of `windows`, `mapped` and `sigbus`.

use std::path::PathBuf;

use numpy::PyUntypedArrayMethods;
use pyo3::exceptions::{PyIndexError, PyOSError};
use pyo3::prelude::*;

use super::{Bytes, Ids, Out, kernel_pool, misuse, slices};
use crate::core::errors::FileError;
use crate::io::mapped::MappedFiles as Files;
use crate::io::sigbus::{Watched, lost};
use crate::io::stat::{Listed, Stamp};
use crate::io::windows::{Conversion, copy_windows as copy};

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
}

#[pymethods]
impl MappedFiles {
    #[new]
    #[pyo3(signature = (paths, sizes, stamps=None, made_of=None))]
    #[allow(clippy::needless_pass_by_value)]
    fn new(
        paths: Vec<PathBuf>,
        sizes: Ids<'_>,
        stamps: Option<Ids<'_>>,
        made_of: Option<(Vec<PathBuf>, Ids<'_>, Option<Ids<'_>>)>,
    ) -> PyResult<Self> {
        let files = listed(paths, &sizes, stamps)?;
        let made_of = made_of.map(|(paths, sizes, stamps)| listed(paths, &sizes, stamps)).transpose()?;
        if made_of.as_ref().is_some_and(|made_of| made_of.len() != files.len()) {
            return Err(misuse("files must be as many as those that they were made of"));
        }
        Ok(Self { files: Files::new(files, made_of.unwrap_or_default()) })
    }

    /// Like `copy_windows`, from files instead of buffers. OSError(path, found) for a file that is missing or was changed.
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
        py.detach(|| {
            let used = self.files.check(which).map_err(Failed::File)?;
            copy(|number| self.files.bytes(number), which, start, row_bytes, conversion, out, Some(&pool))
                .map_err(Failed::Outside)?;
            self.files.check_whole(&used).map_err(Failed::File)
        })
        .map_err(|failed| match failed {
            Failed::File(error) => PyOSError::new_err((error.path, error.found)),
            Failed::Outside(place) => outside(place, which, start),
        })
    }
}

/// Files by path, with what each was when it was listed.
fn listed(paths: Vec<PathBuf>, sizes: &Ids<'_>, stamps: Option<Ids<'_>>) -> PyResult<Vec<(PathBuf, Listed)>> {
    if paths.len() != sizes.len() {
        return Err(misuse("paths and sizes must be equally long"));
    }
    let stamps = stamps.map(|stamps| stamps.as_slice().map(<[i64]>::to_vec)).transpose()?.unwrap_or_default();
    let listed = sizes
        .as_slice()?
        .iter()
        .enumerate()
        .map(|(number, &size)| Listed { size: u64::try_from(size).unwrap_or(0), stamp: Stamp::find(&stamps, number) });
    Ok(paths.into_iter().zip(listed).collect())
}

/// Why rows could not be copied: because of a file, or of a row.
enum Failed {
    File(FileError),
    Outside(usize),
}

/// Mapped memory that another library reads: what its file has no more is read as zeros, and then `is_lost`. `owner` keeps it mapped.
#[pyclass(frozen, name = "WatchedMemory", module = "penstock._core")]
struct WatchedMemory {
    watched: Option<Watched>, // dropped before the owner
    _owner: Py<PyAny>,
}

#[pymethods]
impl WatchedMemory {
    #[new]
    fn new(address: usize, size: usize, owner: Py<PyAny>) -> Self {
        Self { watched: Watched::new(address, size), _owner: owner }
    }

    /// Whether a part of it was read as zeros.
    #[getter]
    fn is_lost(&self) -> bool {
        self.watched.as_ref().is_some_and(Watched::is_lost)
    }
}

/// How often watched memory was lost in this process.
#[pyfunction]
fn lost_memory() -> usize {
    lost()
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<MappedFiles>()?;
    module.add_class::<WatchedMemory>()?;
    module.add_function(wrap_pyfunction!(lost_memory, module)?)?;
    module.add_function(wrap_pyfunction!(copy_windows, module)?)
}
