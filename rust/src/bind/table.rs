//! Bindings of `table`.

use numpy::{PyArray1, PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::errors::row_error;
use super::{Bytes, Ids, detach_for, kernel_pool, misuse};
use crate::table::categories::Categories;
use crate::table::codes::{Code, Table};
use crate::table::dates::Part;
use crate::table::lane::Column;
use crate::table::moments::Moments;
use crate::table::program::{Array, Chain, Program};
use crate::table::radix;
use crate::table::steps::Step;

type Floats<'py> = PyReadonlyArray1<'py, f64>;
type Flags<'py> = PyReadonlyArray1<'py, bool>;

/// A column of numbers or text, whose memory is Python's.
#[derive(FromPyObject)]
enum Given<'py> {
    Floats(Floats<'py>),
    Singles(PyReadonlyArray1<'py, f32>),
    Integers((Ids<'py>, Option<Flags<'py>>)),
    Texts((Ids<'py>, Bytes<'py>, Option<Flags<'py>>)),
}

impl Given<'_> {
    fn column(&self) -> PyResult<Column<'_>> {
        let column = match self {
            Self::Floats(values) => Column::Floats(values.as_slice()?),
            Self::Singles(values) => Column::Singles(values.as_slice()?),
            Self::Integers((values, missing)) => Column::Integers(values.as_slice()?, flags(missing)?),
            Self::Texts((edges, data, missing)) => {
                Column::Texts { edges: edges.as_slice()?, data: data.as_slice()?, missing: flags(missing)? }
            }
        };
        if column.is_sound() { Ok(column) } else { Err(misuse("a column's parts do not fit together")) }
    }
}

fn flags<'a>(missing: &'a Option<Flags<'_>>) -> PyResult<&'a [bool]> {
    Ok(match missing {
        Some(flags) => flags.as_slice()?,
        None => &[],
    })
}

/// An array that is filled.
#[derive(FromPyObject)]
enum Filled<'py> {
    Floats(PyReadwriteArray1<'py, f64>),
    Singles(PyReadwriteArray1<'py, f32>),
    Integers(PyReadwriteArray1<'py, i64>),
    Flags(PyReadwriteArray1<'py, bool>),
}

impl Filled<'_> {
    fn array(&mut self) -> PyResult<Array<'_>> {
        Ok(match self {
            Self::Floats(out) => Array::Floats(out.as_slice_mut()?),
            Self::Singles(out) => Array::Singles(out.as_slice_mut()?),
            Self::Integers(out) => Array::Integers(out.as_slice_mut()?),
            Self::Flags(out) => Array::Flags(out.as_slice_mut()?),
        })
    }
}

/// What a column of one row is.
#[derive(Clone, Copy)]
enum Kind {
    Floats,
    Singles,
    Integers,
    Texts,
}

/// The memory of a column of one row.
enum OneValue {
    Floats([f64; 1]),
    Singles([f32; 1]),
    Integers([i64; 1], [bool; 1]),
    Texts([i64; 2], String, [bool; 1]),
}

impl OneValue {
    fn of(kind: Kind, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let is_missing = value.is_none();
        Ok(match kind {
            Kind::Floats => Self::Floats([if is_missing { f64::NAN } else { value.extract()? }]),
            Kind::Singles => Self::Singles([if is_missing { f32::NAN } else { value.extract()? }]),
            Kind::Integers => Self::Integers([if is_missing { 0 } else { value.extract()? }], [is_missing]),
            Kind::Texts => {
                let text: String = if is_missing { String::new() } else { value.extract()? };
                let end = text.len() as i64;
                Self::Texts([0, end], text, [is_missing])
            }
        })
    }

    fn column(&self) -> Column<'_> {
        match self {
            Self::Floats(value) => Column::Floats(value),
            Self::Singles(value) => Column::Singles(value),
            Self::Integers(value, missing) => Column::Integers(value, missing),
            Self::Texts(edges, text, missing) => Column::Texts { edges, data: text.as_bytes(), missing },
        }
    }
}

/// Chains of steps on the columns of a table.
#[pyclass(frozen)]
pub struct TableProgram {
    program: Program,
    kinds: Vec<Kind>,
    dtypes: Vec<String>,
}

#[pymethods]
impl TableProgram {
    #[new]
    fn new(kinds: Vec<String>, chains: Vec<Bound<'_, PyDict>>, arrays: Vec<(String, usize)>) -> PyResult<Self> {
        let kinds = kinds.iter().map(|kind| kind_of(kind)).collect::<PyResult<Vec<_>>>()?;
        let chains = chains.iter().map(chain_of).collect::<PyResult<Vec<_>>>()?;
        let (dtypes, widths): (Vec<String>, Vec<usize>) = arrays.into_iter().unzip();
        for chain in &chains {
            let is_there = chain.array < widths.len() && chain.offset + chain.width <= widths[chain.array];
            let has_pairs = chain.pairs.iter().all(|&(one, other)| one.max(other) < chain.inputs.len());
            if !is_there || !has_pairs || chain.inputs.is_empty() || chain.inputs.iter().any(|&i| i >= kinds.len()) {
                return Err(misuse("a chain names columns or arrays that there are not"));
            }
        }
        Ok(Self { program: Program { chains, widths }, kinds, dtypes })
    }

    /// Fills arrays with what the chains make of columns.
    fn run(
        &self,
        py: Python<'_>,
        columns: Vec<Given<'_>>,
        mut arrays: Vec<Filled<'_>>,
        threads: usize,
    ) -> PyResult<()> {
        let columns = columns.iter().map(Given::column).collect::<PyResult<Vec<_>>>()?;
        let rows = columns.first().map_or(0, Column::rows);
        let arrays = arrays.iter_mut().map(Filled::array).collect::<PyResult<Vec<_>>>()?;
        let fits = arrays.iter().zip(&self.program.widths).all(|(array, width)| array.len() == rows * width);
        let is_whole = columns.len() == self.kinds.len() && arrays.len() == self.program.widths.len();
        if !fits || !is_whole || columns.iter().any(|column| column.rows() != rows) {
            return Err(misuse("columns and arrays are not those of the program"));
        }
        let pool = if threads > 1 { Some(kernel_pool(threads)?) } else { None };
        detach_for(py, rows, || self.program.run(&columns, rows, arrays, pool.as_deref()))
            .map_err(|failure| row_error(py, failure))
    }

    /// The same of one row: an array for each of the program's.
    fn one<'py>(&self, py: Python<'py>, values: Vec<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyList>> {
        if values.len() != self.kinds.len() {
            return Err(misuse("a row has a value for each column"));
        }
        let given = self
            .kinds
            .iter()
            .zip(&values)
            .enumerate()
            .map(|(place, (&kind, value))| {
                OneValue::of(kind, value).map_err(|error| misuse(format!("{place} {}", error.value(py))))
            })
            .collect::<PyResult<Vec<_>>>()?;
        let columns: Vec<Column<'_>> = given.iter().map(OneValue::column).collect();
        let mut rows: Vec<OneArray> =
            self.dtypes.iter().zip(&self.program.widths).map(|(dtype, &width)| OneArray::new(dtype, width)).collect();
        let arrays = rows.iter_mut().map(OneArray::array).collect();
        self.program.run(&columns, 1, arrays, None).map_err(|failure| row_error(py, failure))?;
        PyList::new(py, rows.into_iter().map(|row| row.into_python(py)))
    }
}

enum OneArray {
    Floats(Vec<f64>),
    Singles(Vec<f32>),
    Integers(Vec<i64>),
    Flags(Vec<bool>),
}

impl OneArray {
    fn new(dtype: &str, width: usize) -> Self {
        match dtype {
            "float32" => Self::Singles(vec![0.0; width]),
            "int64" => Self::Integers(vec![0; width]),
            "bool" => Self::Flags(vec![false; width]),
            _ => Self::Floats(vec![0.0; width]),
        }
    }

    fn array(&mut self) -> Array<'_> {
        match self {
            Self::Floats(out) => Array::Floats(out),
            Self::Singles(out) => Array::Singles(out),
            Self::Integers(out) => Array::Integers(out),
            Self::Flags(out) => Array::Flags(out),
        }
    }

    fn into_python(self, py: Python<'_>) -> Bound<'_, PyAny> {
        match self {
            Self::Floats(row) => PyArray1::from_vec(py, row).into_any(),
            Self::Singles(row) => PyArray1::from_vec(py, row).into_any(),
            Self::Integers(row) => PyArray1::from_vec(py, row).into_any(),
            Self::Flags(row) => PyArray1::from_vec(py, row).into_any(),
        }
    }
}

fn kind_of(name: &str) -> PyResult<Kind> {
    Ok(match name {
        "float64" => Kind::Floats,
        "float32" => Kind::Singles,
        "int64" => Kind::Integers,
        "string" => Kind::Texts,
        _ => return Err(misuse(format!("no kind of column {name:?}"))),
    })
}

fn item<'py, T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>>(
    from: &Bound<'py, PyDict>,
    name: &str,
) -> PyResult<T> {
    let value = from.get_item(name)?.ok_or_else(|| misuse(format!("no {name:?} in the description")))?;
    value.extract().map_err(Into::into)
}

fn chain_of(given: &Bound<'_, PyDict>) -> PyResult<Chain> {
    let steps: Vec<Bound<'_, PyDict>> = item(given, "steps")?;
    Ok(Chain {
        name: item(given, "name")?,
        inputs: item(given, "inputs")?,
        pairs: item(given, "pairs")?,
        steps: steps.iter().map(step_of).collect::<PyResult<_>>()?,
        array: item(given, "array")?,
        offset: item(given, "offset")?,
        width: item(given, "width")?,
    })
}

fn step_of(given: &Bound<'_, PyDict>) -> PyResult<Step> {
    let name: String = item(given, "step")?;
    Ok(match name.as_str() {
        "parse" => Step::Parse,
        "parse_integer" => Step::ParseInteger,
        "fill" => Step::Fill(item(given, "value")?),
        "fill_integer" => Step::FillInteger(item(given, "value")?),
        "to_integer" => Step::ToInteger,
        "to_single" => Step::ToSingle,
        "is_missing" => Step::IsMissing,
        "subtract" => Step::Subtract(item(given, "value")?),
        "divide" => Step::Divide(item(given, "value")?),
        "multiply" => Step::Multiply(item(given, "value")?),
        "add" => Step::Add(item(given, "value")?),
        "clip" => Step::Clip(item(given, "low")?, item(given, "high")?),
        "log" => Step::Log(item(given, "value")?),
        "box_cox" => Step::BoxCox(item(given, "value")?),
        "yeo_johnson" => Step::YeoJohnson(item(given, "value")?),
        "cut" => Step::Cut(item(given, "edges")?),
        "lookup" => Step::Lookup {
            categories: categories_of(given)?,
            unknown: code_of(given, "unknown")?,
            missing: code_of(given, "missing")?,
        },
        "table" => Step::Table(
            Table::new(item(given, "values")?, item(given, "codes")?, item(given, "width")?)
                .ok_or_else(|| misuse("a table has numbers for each code, and for others"))?,
        ),
        "one_hot" => Step::OneHot(item(given, "width")?),
        "dates" => Step::Dates { parts: parts_of(given)?, per_day: item::<i64>(given, "per_day")?.max(1) },
        _ => return Err(misuse(format!("no step {name:?}"))),
    })
}

fn categories_of(given: &Bound<'_, PyDict>) -> PyResult<Categories> {
    if given.contains("texts")? {
        let texts: Vec<String> = item(given, "texts")?;
        return Ok(Categories::of_texts(texts.iter().map(String::as_bytes)));
    }
    let numbers: Ids<'_> = item(given, "numbers")?;
    Ok(Categories::of_integers(numbers.as_slice()?))
}

/// A number, "missing", "refused", or the first of buckets with their number.
fn code_of(given: &Bound<'_, PyDict>, name: &str) -> PyResult<Code> {
    #[derive(FromPyObject)]
    enum Said {
        Number(i64),
        Buckets((i64, u64)),
        Word(String),
    }
    Ok(match item::<Said>(given, name)? {
        Said::Number(code) => Code::Is(code),
        Said::Buckets((first, buckets)) => Code::Hashed { first, buckets: buckets.max(1) },
        Said::Word(word) if word == "missing" => Code::Missing,
        Said::Word(_) => Code::Refused,
    })
}

fn parts_of(given: &Bound<'_, PyDict>) -> PyResult<Vec<Part>> {
    let names: Vec<String> = item(given, "parts")?;
    names.iter().map(|name| Part::named(name).ok_or_else(|| misuse(format!("no part {name:?}")))).collect()
}

/// An exponent, the sum in units of 2^(exponent - 1075), and that of squares in units of its square.
type Sum = (usize, i128, u128, u128);

/// Counts of finite, missing and infinite numbers, the least and greatest, and exact sums.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn table_moments(py: Python<'_>, values: Floats<'_>) -> PyResult<(u64, u64, u64, f64, f64, Vec<Sum>)> {
    let values = values.as_slice()?;
    let moments = py.detach(|| {
        let mut moments = Moments::default();
        moments.add(values);
        moments
    });
    let sums = moments.sums().map(|(exponent, sum, [low, high])| (exponent, sum, low, high)).collect();
    Ok((moments.count, moments.missing, moments.infinite, moments.least, moments.greatest, sums))
}

/// Adds to `counts`, of 65,536 places a prefix, the numbers whose patterns begin with prefixes of `known` bits.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn table_radix_count(
    py: Python<'_>,
    values: Floats<'_>,
    known: u32,
    prefixes: PyReadonlyArray1<'_, u64>,
    mut counts: PyReadwriteArray1<'_, i64>,
) -> PyResult<()> {
    let (values, prefixes, counts) = (values.as_slice()?, prefixes.as_slice()?, counts.as_slice_mut()?);
    if known > 48 || counts.len() != prefixes.len() << radix::DIGIT || !prefixes.is_sorted() {
        return Err(misuse("counts have 65,536 places for each prefix, and prefixes ascend"));
    }
    py.detach(|| radix::count(values, known, prefixes, counts));
    Ok(())
}

/// The numbers whose patterns begin with one of the prefixes of `known` bits.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn table_radix_collect<'py>(
    py: Python<'py>,
    values: Floats<'py>,
    known: u32,
    prefixes: PyReadonlyArray1<'py, u64>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (values, prefixes) = (values.as_slice()?, prefixes.as_slice()?);
    if known > 64 || !prefixes.is_sorted() {
        return Err(misuse("prefixes ascend, and have at most 64 bits"));
    }
    Ok(PyArray1::from_vec(py, py.detach(|| radix::collect(values, known, prefixes))))
}

/// Adds this file's functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<TableProgram>()?;
    module.add_function(wrap_pyfunction!(table_moments, module)?)?;
    module.add_function(wrap_pyfunction!(table_radix_count, module)?)?;
    module.add_function(wrap_pyfunction!(table_radix_collect, module)?)
}
