//! Bindings of `json`.

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyList};
use rayon::ThreadPool;

use super::columns::parse_records;
use super::{Bytes, Ids, Out, misuse};
use crate::core::columns::Records;
use crate::core::dtype::Dtype;
use crate::records::json::{Column, Parser, Target};

/// Makes columns of JSON lines; immutable, for any number of threads at once.
#[pyclass(frozen, name = "JsonParser", module = "penstock._core")]
struct JsonParser {
    parser: Parser,
    made_of: (Vec<Description>, usize),
}

/// A column as Python describes it: (path, form, dtype, shape, expected, default).
type Description = (Vec<String>, String, String, Vec<usize>, String, Option<Vec<u8>>);

fn column((path, form, dtype, shape, expected, default): Description) -> PyResult<Column> {
    let number = || Dtype::parse(&dtype).ok_or_else(|| misuse(format!("{dtype:?} is no dtype of numbers")));
    let target = match form.as_str() {
        "fixed" => Target::Fixed { dtype: number()?, shape },
        "ragged" => Target::Ragged { dtype: number()?, shape },
        "text" => Target::Text,
        "texts" => Target::Texts { values: shape.first().copied() },
        "raw" => Target::Raw,
        _ => return Err(misuse(format!("no form {form:?}"))),
    };
    if let (Target::Fixed { dtype, shape }, Some(default)) = (&target, &default)
        && default.len() != shape.iter().product::<usize>() * dtype.size()
    {
        return Err(misuse("a default of another size than its row"));
    }
    if path.is_empty() {
        return Err(misuse("a column without a key"));
    }
    Ok(Column { path, target, expected, default })
}

#[pymethods]
impl JsonParser {
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

    /// Parses lines. `outs`: the bytes of each fixed column's array, None for the others. For each column: None for fixed,
    /// (values' bytes, offsets) for ragged, (bytes, ends, offsets) for the others.
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
        let row_bytes = self.parser.row_bytes();
        let parse = |records: Records<'_>, outs: Vec<&mut [u8]>, pool: Option<&ThreadPool>| {
            self.parser.parse(records, outs, pool)
        };
        parse_records(py, (&buffers, which, offset, length), (&mut outs, row_bytes), threads, parse)
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<JsonParser>()
}
