//! Bindings of `files`.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use numpy::{PyArray1, PyUntypedArrayMethods};
use pyo3::exceptions::{PyFileNotFoundError, PyOSError};
use pyo3::prelude::*;

use super::watched::watched;
use super::{Bytes, Ids, Out, detach_for, io_pool, misuse};
use crate::core::errors::FileError;
use crate::io::files::{self, Range};
use crate::io::folders;
use crate::io::names::Names;
use crate::io::stat::{Entry, stat};

/// Paths as the two buffers of an Arrow large_string array, sizes in bytes, and the stamps, three numbers a file.
type Listing<'py> =
    (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<u8>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);
/// Of each name the place of its folder among those found, and of each of those the first name in it.
type FirstFolders<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

/// A single range of up to so many bytes is read by the calling thread, which sees no signal meanwhile.
const BRIEF_BYTES: usize = 16 << 20;

/// A file that is missing, or cannot be read.
pub fn to_python(error: FileError) -> PyErr {
    let arguments = (error.path, error.found);
    if error.missing { PyFileNotFoundError::new_err(arguments) } else { PyOSError::new_err(arguments) }
}

/// All files below `root`, sorted by path; OSError(path, found) for the first that cannot be looked at.
#[pyfunction]
fn walk_files<'py>(py: Python<'py>, root: &str, threads: usize) -> PyResult<Listing<'py>> {
    let pool = io_pool(threads)?;
    let entries = watched(py, &pool, |stopped| folders::walk(Path::new(root), stopped))?.map_err(to_python)?;
    Ok(listing(py, &entries))
}

/// The files of a list, in its order, without names that are not regular files.
#[pyfunction]
fn stat_files<'py>(py: Python<'py>, paths: Vec<String>) -> PyResult<Listing<'py>> {
    let entries = py
        .detach(|| paths.iter().filter_map(|path| stat(Path::new(path)).transpose()).collect::<Result<Vec<_>, _>>())
        .map_err(to_python)?;
    Ok(listing(py, &entries))
}

#[allow(clippy::cast_possible_wrap)]
fn listing<'py>(py: Python<'py>, entries: &[Entry]) -> Listing<'py> {
    let mut offsets = vec![0_i64];
    let mut names = Vec::new();
    for entry in entries {
        names.extend_from_slice(entry.path.as_bytes());
        offsets.push(names.len() as i64);
    }
    let sizes = entries.iter().map(|entry| entry.size as i64).collect();
    let stamps = entries.iter().flat_map(|entry| entry.stamp.0).collect();
    (
        PyArray1::from_vec(py, offsets),
        PyArray1::from_vec(py, names),
        PyArray1::from_vec(py, sizes),
        PyArray1::from_vec(py, stamps),
    )
}

/// See `Names::end_with`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn names_end_with<'py>(
    py: Python<'py>,
    offsets: Ids<'py>,
    bytes: Bytes<'py>,
    endings: Vec<String>,
    any_case: bool,
) -> PyResult<Bound<'py, PyArray1<bool>>> {
    let names = names_of(&offsets, &bytes)?;
    Ok(PyArray1::from_vec(py, detach_for(py, offsets.len(), || names.end_with(&endings, any_case))))
}

/// See `Names::first_folders`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn first_folders<'py>(
    py: Python<'py>,
    offsets: Ids<'py>,
    bytes: Bytes<'py>,
    root_bytes: usize,
) -> PyResult<FirstFolders<'py>> {
    let names = names_of(&offsets, &bytes)?;
    let (folders, first) = detach_for(py, offsets.len(), || names.first_folders(root_bytes));
    Ok((PyArray1::from_vec(py, folders), PyArray1::from_vec(py, first)))
}

fn names_of<'a>(offsets: &'a Ids<'_>, bytes: &'a Bytes<'_>) -> PyResult<Names<'a>> {
    Names::new(offsets.as_slice()?, bytes.as_slice()?).ok_or_else(|| misuse("names outside their bytes"))
}

/// Fills `out[at[i]..][..length[i]]` from file `shard[i]`; these places must not overlap.
#[pyfunction]
#[pyo3(signature = (path_offsets, path_bytes, sizes, shard, offset, length, out, at, threads, stamps=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
fn read_ranges(
    py: Python<'_>,
    path_offsets: Ids<'_>,
    path_bytes: Bytes<'_>,
    sizes: Ids<'_>,
    shard: Ids<'_>,
    offset: Ids<'_>,
    length: Ids<'_>,
    mut out: Out<'_>,
    at: Ids<'_>,
    threads: usize,
    stamps: Option<Ids<'_>>,
) -> PyResult<()> {
    let count = shard.len();
    if [offset.len(), length.len(), at.len()] != [count; 3] {
        return Err(misuse("shard, offset, length and at must be equally long"));
    }
    let table = Table::new(&path_offsets, &path_bytes, &sizes)?;
    let (shard, offset) = (shard.as_slice()?, offset.as_slice()?);
    let stamps = stamps.as_ref().map(|stamps| stamps.as_slice()).transpose()?.unwrap_or_default();
    let mut ranges = Vec::with_capacity(count);
    for (i, mine) in outputs(out.as_slice_mut()?, at.as_slice()?, length.as_slice()?)? {
        let (path, size) = table.file(shard[i]).ok_or_else(|| outside(i))?;
        let offset = u64::try_from(offset[i]).map_err(|_| outside(i))?;
        ranges.push(Range { path, number: shard[i], size, offset, out: mine });
    }
    let total_bytes: usize = ranges.iter().map(|range| range.out.len()).sum();
    let read = if count <= 1 && total_bytes <= BRIEF_BYTES {
        py.detach(|| files::read_in_turn(&mut ranges, stamps, &AtomicBool::new(false))) // this thread waits anyway
    } else {
        let pool = io_pool(threads)?;
        watched(py, &pool, |stopped| files::read(&mut ranges, stamps, count.div_ceil(threads.max(1) * 4), stopped))?
    };
    read.map_err(to_python)
}

fn outside(range: usize) -> PyErr {
    misuse(format!("range {range} does not fit the buffer or the files"))
}

/// The parts of a buffer, each with its number: `length[i]` bytes from `at[i]`; in the order of their places.
pub fn outputs<'a>(mut rest: &'a mut [u8], at: &[i64], length: &[i64]) -> PyResult<Vec<(usize, &'a mut [u8])>> {
    if at.len() != length.len() {
        return Err(misuse("length and at must be equally long"));
    }
    let mut turn: Vec<usize> = (0..at.len()).collect();
    turn.sort_by_key(|&i| at[i]); // as a rule they ascend
    let (mut taken, mut parts) = (0, Vec::with_capacity(at.len()));
    for i in turn {
        let place = usize::try_from(at[i]).ok().and_then(|at| at.checked_sub(taken)).ok_or_else(|| outside(i))?;
        let bytes = usize::try_from(length[i]).map_err(|_| outside(i))?;
        let (_, after) = rest.split_at_mut_checked(place).ok_or_else(|| outside(i))?;
        let (mine, after) = after.split_at_mut_checked(bytes).ok_or_else(|| outside(i))?;
        (rest, taken) = (after, taken + place + bytes);
        parts.push((i, mine));
    }
    Ok(parts)
}

/// Files by their numbers.
pub struct Table<'a> {
    offsets: &'a [i64],
    bytes: &'a [u8],
    sizes: &'a [i64],
}

impl<'a> Table<'a> {
    /// Paths as the two buffers of an Arrow `large_string` array, and sizes.
    pub fn new(offsets: &'a Ids<'_>, bytes: &'a Bytes<'_>, sizes: &'a Ids<'_>) -> PyResult<Self> {
        Ok(Self { offsets: offsets.as_slice()?, bytes: bytes.as_slice()?, sizes: sizes.as_slice()? })
    }

    /// A file's path and size.
    pub fn file(&self, shard: i64) -> Option<(&'a str, u64)> {
        let shard = usize::try_from(shard).ok()?;
        let start = usize::try_from(*self.offsets.get(shard)?).ok()?;
        let end = usize::try_from(*self.offsets.get(shard + 1)?).ok()?;
        let path = std::str::from_utf8(self.bytes.get(start..end)?).ok()?;
        Some((path, u64::try_from(*self.sizes.get(shard)?).ok()?))
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(walk_files, module)?)?;
    module.add_function(wrap_pyfunction!(stat_files, module)?)?;
    module.add_function(wrap_pyfunction!(names_end_with, module)?)?;
    module.add_function(wrap_pyfunction!(first_folders, module)?)?;
    module.add_function(wrap_pyfunction!(read_ranges, module)?)
}
