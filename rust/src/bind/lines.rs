//! Bindings of `framing::lines` and `line_text`.

use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use super::errors::row_error;
use super::file_lists::{listed, listed_error};
use super::progress::WorkProgress;
use super::{Bytes, Ids, check_spans, misuse, slices};
use crate::core::columns::Records;
use crate::records::framing::lines::{Blank, Style, index_files};
use crate::records::line_text;

type Array<'py, T> = Bound<'py, PyArray1<T>>;

/// Where the records of each file begin, how many they are, and how long each is, file after file. `blank`: which lines are no
/// records ("kept": all are, "empty", "white"). `quoted`: the byte between fields, where quotes hold newlines.
#[pyfunction]
#[pyo3(signature = (paths, sizes, *, blank, quoted, header, record_bytes, threads, progress))]
#[allow(clippy::too_many_arguments)]
fn index_lines<'py>(
    py: Python<'py>,
    paths: Vec<String>,
    sizes: Ids<'py>,
    blank: &str,
    quoted: Option<u8>,
    header: bool,
    record_bytes: u64,
    threads: usize,
    progress: &WorkProgress,
) -> PyResult<(Array<'py, i64>, Array<'py, i64>, Array<'py, i64>)> {
    let blank = match blank {
        "kept" => Blank::Kept,
        "empty" => Blank::Empty,
        "white" => Blank::White,
        _ => return Err(misuse(format!("blank={blank:?}"))),
    };
    let files = listed(&paths, &sizes)?;
    let found = py
        .detach(|| index_files(&files, Style { blank, quoted, header }, record_bytes, threads, &progress.0))
        .map_err(listed_error(py, &paths))?;
    let start = PyArray1::from_iter(py, found.iter().map(|lines| lines.start));
    let counts = PyArray1::from_iter(py, found.iter().map(|lines| lines.lengths.len() as i64));
    let lengths = found.into_iter().flat_map(|lines| lines.lengths).collect::<Vec<_>>();
    Ok((start, counts, lengths.into_pyarray(py)))
}

/// The text of lines, checked to be UTF-8: all bytes, and where each row begins and the last ends.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn line_texts<'py>(
    py: Python<'py>,
    buffers: Vec<Bytes<'py>>,
    which: Ids<'py>,
    offset: Ids<'py>,
    length: Ids<'py>,
) -> PyResult<(Array<'py, u8>, Array<'py, i64>)> {
    let buffers = slices(&buffers)?;
    let (which, offset, length) = (which.as_slice()?, offset.as_slice()?, length.as_slice()?);
    check_spans(which, offset, length)?;
    let records = Records { buffers: &buffers, which, offset, length };
    let texts = py.detach(|| line_text::texts(records)).map_err(|failure| row_error(py, failure))?;
    Ok((texts.data.into_pyarray(py), texts.offsets.into_pyarray(py)))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(index_lines, module)?)?;
    module.add_function(wrap_pyfunction!(line_texts, module)?)
}
