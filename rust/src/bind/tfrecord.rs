//! Bindings of `framing` and `example`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rayon::ThreadPool;

use super::columns::parse_records;
use super::errors::row_error;
use super::file_lists::{listed, listed_error, packing_of};
use super::progress::WorkProgress;
use super::{Bytes, Ids, Out, check_spans, misuse, slices};
use crate::core::columns::Records;
use crate::core::dtype::Dtype;
use crate::records::example::infer::Summary;
use crate::records::example::{Column, Parser, Target, infer};
use crate::records::framing::tfrecord;
use crate::records::framing::unpack::{Bounds, Job, Packing, recognise, recognise_magic, unpack_files};

type Array<'py, T> = Bound<'py, PyArray1<T>>;

/// Whether a file that begins with `head` is a TFRecord file, or compressed with gzip as they often are.
#[pyfunction]
fn is_tfrecord(head: &[u8]) -> bool {
    let plain = head.first_chunk().is_some_and(|header| tfrecord::data_length(header).is_ok());
    plain || recognise(head) == Packing::Gzip
}

/// The compression of each TFRecord file: 0 none, 1 gzip, 2 zlib, 3 Zstandard, 4 bzip2, 5 xz, 6 LZ4.
#[pyfunction]
fn recognise_tfrecord_packing<'py>(py: Python<'py>, paths: Vec<String>, threads: usize) -> PyResult<Array<'py, i64>> {
    packing_of(py, &paths, recognise, threads)
}

/// The same for files of any other format, except that zlib is not recognised.
#[pyfunction]
fn recognise_packing<'py>(py: Python<'py>, paths: Vec<String>, threads: usize) -> PyResult<Array<'py, i64>> {
    packing_of(py, &paths, recognise_magic, threads)
}

/// Decompresses files (packing as above, 1 and 2 only) to targets by way of scratch files; returns the sizes. `room_bytes` limits all
/// of them together.
#[pyfunction]
#[pyo3(signature = (paths, packing, targets, scratch, *, unpacked_bytes, ratio, room_bytes, threads, progress))]
#[allow(clippy::too_many_arguments)]
fn unpack_files_once<'py>(
    py: Python<'py>,
    paths: Vec<String>,
    packing: Ids<'py>,
    targets: Vec<PathBuf>,
    scratch: Vec<PathBuf>,
    unpacked_bytes: u64,
    ratio: u64,
    room_bytes: u64,
    threads: usize,
    progress: &WorkProgress,
) -> PyResult<Array<'py, i64>> {
    let packing = packing.as_slice()?;
    if packing.len() != paths.len() || targets.len() != paths.len() || scratch.len() != paths.len() {
        return Err(misuse("paths, packing, targets and scratch must be equally long"));
    }
    let jobs: Vec<Job> = (0..paths.len())
        .map(|file| Job {
            path: PathBuf::from(&paths[file]),
            packing: match packing[file] {
                0 => Packing::Plain,
                1 => Packing::Gzip,
                _ => Packing::Zlib,
            },
            target: targets[file].clone(),
            scratch: scratch[file].clone(),
        })
        .collect();
    let bounds = Bounds { unpacked_bytes, ratio, room_bytes };
    py.detach(|| unpack_files(&jobs, bounds, threads, &progress.0))
        .map(|sizes| sizes.into_pyarray(py))
        .map_err(listed_error(py, &paths))
}

/// Records of each file, and the length of each record with its frame, file after file.
#[pyfunction]
#[pyo3(signature = (paths, sizes, *, record_bytes, threads, progress))]
fn index_tfrecords<'py>(
    py: Python<'py>,
    paths: Vec<String>,
    sizes: Ids<'py>,
    record_bytes: u64,
    threads: usize,
    progress: &WorkProgress,
) -> PyResult<(Array<'py, i64>, Array<'py, i64>)> {
    let files = listed(&paths, &sizes)?;
    let index = py
        .detach(|| tfrecord::index_files(&files, record_bytes, threads, &progress.0))
        .map_err(listed_error(py, &paths))?;
    Ok((index.counts.into_pyarray(py), index.lengths.into_pyarray(py)))
}

/// Name, kind, mixed kinds, records (or steps) that have it, fewest values, most values, whether it is a list of features.
type FeatureRow = (String, &'static str, bool, usize, usize, usize, bool);

/// The features of records, then the lists of features of SequenceExamples, sorted by name.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn infer_examples(
    py: Python<'_>,
    buffers: Vec<Bytes<'_>>,
    which: Ids<'_>,
    offset: Ids<'_>,
    length: Ids<'_>,
    verify: bool,
) -> PyResult<Vec<FeatureRow>> {
    let buffers = slices(&buffers)?;
    let (which, offset, length) = (which.as_slice()?, offset.as_slice()?, length.as_slice()?);
    check_spans(which, offset, length)?;
    let records = Records { buffers: &buffers, which, offset, length };
    let features = py.detach(|| infer::infer(records, verify)).map_err(|failure| row_error(py, failure))?;
    let rows = |features: BTreeMap<String, Summary>, is_list| {
        features.into_iter().map(move |(name, summary)| {
            let least = if summary.present == 0 { 0 } else { summary.least };
            (name, summary.kind.name(), summary.mixed, summary.present, least, summary.most, is_list)
        })
    };
    Ok(rows(features.plain, false).chain(rows(features.lists, true)).collect())
}

/// Makes columns of serialised tf.train.Examples; immutable, for any number of threads at once.
#[pyclass(frozen, name = "ExampleParser", module = "penstock._core")]
struct ExampleParser {
    parser: Parser,
    made_of: (Names, bool, usize),
}

/// Features, feature lists and columns.
type Names = (Vec<String>, Vec<String>, Vec<Description>);

/// A column as Python describes it: (feature number, form, dtype, values or step or -1, expected, default).
type Description = (usize, String, String, i64, String, Option<Vec<u8>>);

fn column((feature, form, dtype, values, expected, default): Description, features: usize) -> PyResult<Column> {
    let number = || Dtype::parse(&dtype).ok_or_else(|| misuse(format!("{dtype:?} is no dtype of numbers")));
    let count = usize::try_from(values).ok();
    let text = dtype == "string" || dtype == "bytes";
    let target = match (form.as_str(), count) {
        ("fixed", Some(values)) => Target::Fixed { dtype: number()?, values },
        ("ragged", Some(step)) if step > 0 => Target::Ragged { dtype: number()?, step },
        ("spans", _) => Target::Spans,
        ("texts", values) => Target::Texts { values, text: dtype == "string" },
        ("steps", Some(1)) if text => Target::StepTexts { text: dtype == "string" },
        ("steps", Some(values)) => Target::Steps { dtype: number()?, values },
        ("nested", _) if text => Target::NestedTexts { text: dtype == "string" },
        ("nested", _) => Target::Nested { dtype: number()? },
        _ => return Err(misuse(format!("no form {form:?} with {values} values"))),
    };
    if let (Target::Fixed { dtype, values }, Some(default)) = (&target, &default)
        && default.len() != values * dtype.size()
    {
        return Err(misuse("a default of another size than its row"));
    }
    if feature >= features {
        return Err(misuse("a column of a feature that is not listed"));
    }
    Ok(Column { feature, target, expected, default })
}

#[pymethods]
impl ExampleParser {
    #[new]
    #[pyo3(signature = (features, lists, columns, *, verify, values_limit))]
    fn new(
        features: Vec<String>,
        lists: Vec<String>,
        columns: Vec<Description>,
        verify: bool,
        values_limit: usize,
    ) -> PyResult<Self> {
        let known = features.len() + lists.len();
        let made_of = ((features.clone(), lists.clone(), columns.clone()), verify, values_limit);
        let columns = columns.into_iter().map(|description| column(description, known)).collect::<PyResult<_>>()?;
        Ok(Self { parser: Parser::new(features, lists, columns, verify, values_limit), made_of })
    }

    /// For pickle.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<(Names, Bound<'py, PyDict>)> {
        let (names, verify, values_limit) = &self.made_of;
        let options = PyDict::new(py);
        options.set_item("verify", verify)?;
        options.set_item("values_limit", values_limit)?;
        Ok((names.clone(), options))
    }

    /// Parses records. `outs`: the bytes of each fixed column's array, None for the others. For each column:
    /// None for fixed, (which, offset, length) for spans, (values' bytes, offsets) for ragged, (bytes, ends, offsets) for texts.
    #[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
    fn parse<'py>(
        &self,
        py: Python<'py>,
        buffers: Vec<Bytes<'py>>,
        which: Ids<'py>,
        offset: Ids<'py>,
        length: Ids<'py>,
        mut outs: Vec<Option<Out<'py>>>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let row_bytes = self.parser.columns().iter().map(|column| column.target.form().row_bytes());
        let parse = |records: Records<'_>, outs: Vec<&mut [u8]>, pool: Option<&ThreadPool>| {
            self.parser.parse(records, outs, pool)
        };
        parse_records(py, (&buffers, which, offset, length), (&mut outs, row_bytes), threads, parse)
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ExampleParser>()?;
    module.add_function(wrap_pyfunction!(is_tfrecord, module)?)?;
    module.add_function(wrap_pyfunction!(recognise_packing, module)?)?;
    module.add_function(wrap_pyfunction!(recognise_tfrecord_packing, module)?)?;
    module.add_function(wrap_pyfunction!(unpack_files_once, module)?)?;
    module.add_function(wrap_pyfunction!(index_tfrecords, module)?)?;
    module.add_function(wrap_pyfunction!(infer_examples, module)?)
}
