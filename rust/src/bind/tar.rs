//! Bindings of `tar`.

use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyList};
use rayon::ThreadPool;

use super::columns::parse_records;
use super::errors::row_error;
use super::file_lists::{listed, listed_error, packing_of};
use super::progress::WorkProgress;
use super::{Bytes, Ids, Out, misuse};
use crate::core::columns::Records;
use crate::core::dtype::Dtype;
use crate::core::errors::RowFailure;
use crate::records::tar::parse::{Column, Parser, Target};
use crate::records::tar::{index, is_header, npy, parse, recognise};

type Array<'py, T> = Bound<'py, PyArray1<T>>;

/// Whether a file that begins with `head` (512 bytes) is a tar archive.
#[pyfunction]
fn is_tar(head: &[u8]) -> bool {
    is_header(head)
}

/// How each file is packed, as for files of any other format.
#[pyfunction]
fn recognise_tar_packing<'py>(py: Python<'py>, paths: Vec<String>, threads: usize) -> PyResult<Array<'py, i64>> {
    packing_of(py, &paths, recognise, threads)
}

/// Where the first sample of each file begins, samples of each file, and the bytes of each sample, file after file.
#[pyfunction]
#[pyo3(signature = (paths, sizes, *, record_bytes, threads, progress))]
#[allow(clippy::type_complexity)]
fn index_tar_samples<'py>(
    py: Python<'py>,
    paths: Vec<String>,
    sizes: Ids<'py>,
    record_bytes: u64,
    threads: usize,
    progress: &WorkProgress,
) -> PyResult<(Array<'py, i64>, Array<'py, i64>, Array<'py, i64>)> {
    let files = listed(&paths, &sizes)?;
    let found = py
        .detach(|| index::index_files(&files, record_bytes, threads, &progress.0))
        .map_err(listed_error(py, &paths))?;
    let starts = PyArray1::from_iter(py, found.iter().map(|samples| samples.start));
    let counts = PyArray1::from_iter(py, found.iter().map(|samples| samples.lengths.len() as i64));
    let lengths: Vec<i64> = found.into_iter().flat_map(|samples| samples.lengths).collect();
    Ok((starts, counts, lengths.into_pyarray(py)))
}

/// The members of one sample's record: (extension in lower case, first byte, bytes).
#[pyfunction]
fn tar_sample_members(py: Python<'_>, record: &[u8]) -> PyResult<Vec<(String, usize, usize)>> {
    parse::members(record)
        .map_err(|(found, remedy)| row_error(py, RowFailure { row: 0, found, remedy: remedy.to_owned() }))
}

/// Dtype and shape of an .npy file; ValueError with what was found if it does not hold numbers.
#[pyfunction]
fn npy_header(file: &[u8]) -> PyResult<(String, Vec<usize>)> {
    let header = npy::parse(file).map_err(PyValueError::new_err)?;
    Ok((format!("{:?}", header.dtype).to_lowercase(), header.shape))
}

/// Makes columns of samples in tar archives; immutable, for any number of threads at once.
#[pyclass(frozen, name = "TarParser", module = "penstock._core")]
struct TarParser {
    parser: Parser,
    made_of: (Vec<Description>, usize),
}

/// A column as Python describes it: (extensions, form, dtype, shape with -1 for what varies, expected, default).
type Description = (Vec<String>, String, String, Vec<i64>, String, Option<Vec<u8>>);

fn column((extensions, form, dtype, shape, expected, default): Description) -> PyResult<Column> {
    let number = || Dtype::parse(&dtype).ok_or_else(|| misuse(format!("{dtype:?} is no dtype of numbers")));
    let target = match form.as_str() {
        "spans" => Target::Spans,
        "texts" => Target::Texts { text: dtype == "string" },
        "key" => Target::Key,
        "number" => Target::Number { dtype: number()? },
        "array" => {
            let shape: Vec<Option<usize>> = shape.into_iter().map(|axis| usize::try_from(axis).ok()).collect();
            if shape.iter().skip(1).any(|axis| matches!(axis, None | Some(0)) && shape[0].is_none()) {
                return Err(misuse("only the first axis can vary, and then no other is 0"));
            }
            Target::Array { dtype: number()?, shape }
        }
        _ => return Err(misuse(format!("no form {form:?}"))),
    };
    let row_bytes = target.form().row_bytes();
    if matches!(target, Target::Number { .. } | Target::Array { .. })
        && default.as_ref().is_some_and(|default| default.len() != row_bytes)
    {
        return Err(misuse("a default of another size than its row"));
    }
    Ok(Column { extensions, target, expected, default })
}

#[pymethods]
impl TarParser {
    #[new]
    #[pyo3(signature = (columns, *, values_limit))]
    fn new(columns: Vec<Description>, values_limit: usize) -> PyResult<Self> {
        let made_of = (columns.clone(), values_limit);
        let columns = columns.into_iter().map(column).collect::<PyResult<_>>()?;
        Ok(Self { parser: Parser::new(columns, values_limit), made_of })
    }

    /// For pickle.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((Vec<Description>,), Bound<'py, PyDict>)> {
        let (columns, values_limit) = &self.made_of;
        Ok(((columns.clone(),), [("values_limit", *values_limit)].into_py_dict(py)?))
    }

    /// Parses samples; see `ExampleParser.parse`.
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
    module.add_class::<TarParser>()?;
    module.add_function(wrap_pyfunction!(is_tar, module)?)?;
    module.add_function(wrap_pyfunction!(recognise_tar_packing, module)?)?;
    module.add_function(wrap_pyfunction!(index_tar_samples, module)?)?;
    module.add_function(wrap_pyfunction!(tar_sample_members, module)?)?;
    module.add_function(wrap_pyfunction!(npy_header, module)?)
}
