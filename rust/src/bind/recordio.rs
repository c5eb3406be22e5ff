//! Bindings of `framing::recordio`, `framing::parts` and `framing::pieces`.

use std::path::{Path, PathBuf};

use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use super::errors::{file_error, row_error};
use super::file_lists::{listed, listed_error};
use super::progress::WorkProgress;
use super::{Bytes, Ids, check_spans, misuse, slices};
use crate::records::framing::parts;
use crate::records::framing::pieces::{Framed, whole_records};
use crate::records::framing::recordio::{Job, index_files, positions_of};
use crate::records::framing::recordio_header::part;

type Array<'py, T> = Bound<'py, PyArray1<T>>;

/// Whether a file that begins with `head` is a RecordIO file.
#[pyfunction]
fn is_recordio(head: &[u8]) -> bool {
    head.first_chunk().and_then(|header| part(*header)).is_some_and(|(kind, _)| kind.fits(false))
}

/// The length of every whole record at the beginning of a piece of a stream.
#[pyfunction]
#[pyo3(signature = (kind, data, *, first, record_bytes, name))]
#[allow(clippy::needless_pass_by_value)]
fn stream_records<'py>(
    py: Python<'py>,
    kind: &str,
    data: Bytes<'py>,
    first: u64,
    record_bytes: u64,
    name: &str,
) -> PyResult<Array<'py, i64>> {
    let framed = match kind {
        "tfrecord" => Framed::TfRecord,
        "recordio" => Framed::RecordIo,
        "lines" => Framed::Lines,
        _ => return Err(misuse("a stream's records are tfrecord, recordio or lines")),
    };
    let data = data.as_slice()?;
    let lengths = py
        .detach(|| whole_records(framed, data, first, record_bytes))
        .map_err(|trouble| file_error(py, name, trouble))?;
    Ok(lengths.into_pyarray(py))
}

/// Records of each file, and the length of each record with headers and padding, file after file.
#[pyfunction]
#[pyo3(signature = (paths, sizes, *, record_bytes, threads, progress))]
fn index_recordio<'py>(
    py: Python<'py>,
    paths: Vec<String>,
    sizes: Ids<'py>,
    record_bytes: u64,
    threads: usize,
    progress: &WorkProgress,
) -> PyResult<(Array<'py, i64>, Array<'py, i64>)> {
    let job = |(path, size)| Job { path: PathBuf::from(path), size, positions: positions_of(Path::new(path)) };
    let jobs: Vec<Job> = listed(&paths, &sizes)?.into_iter().map(job).collect();
    let index =
        py.detach(|| index_files(&jobs, record_bytes, threads, &progress.0)).map_err(listed_error(py, &paths))?;
    Ok((index.counts.into_pyarray(py), index.lengths.into_pyarray(py)))
}

type Places<'py> = (Array<'py, i64>, Array<'py, i64>, Array<'py, i64>, Array<'py, u8>);

/// Where the data of records lies: which (one more than there are buffers: the last array), offset, length.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn recordio_payloads<'py>(
    py: Python<'py>,
    buffers: Vec<Bytes<'py>>,
    which: Ids<'py>,
    offset: Ids<'py>,
    length: Ids<'py>,
) -> PyResult<Places<'py>> {
    let buffers = slices(&buffers)?;
    let (which, offset, length) = (which.as_slice()?, offset.as_slice()?, length.as_slice()?);
    check_spans(which, offset, length)?;
    let found =
        py.detach(|| parts::payloads(&buffers, which, offset, length)).map_err(|failure| row_error(py, failure))?;
    let (which, offset) = (found.which.into_pyarray(py), found.offset.into_pyarray(py));
    Ok((which, offset, found.length.into_pyarray(py), found.joined.into_pyarray(py)))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(is_recordio, module)?)?;
    module.add_function(wrap_pyfunction!(index_recordio, module)?)?;
    module.add_function(wrap_pyfunction!(recordio_payloads, module)?)?;
    module.add_function(wrap_pyfunction!(stream_records, module)?)
}
