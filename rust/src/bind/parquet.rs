//! Bindings of `parquet`.

use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::{Bytes, Ids, misuse};
use crate::records::parquet::footer::{Chunk, Footer};
use crate::records::parquet::page_header::Page;
use crate::records::parquet::page_index::{Bounds, Pages};
use crate::records::parquet::rewrite::Part;
use crate::records::parquet::{Fault, Leaf};

type Array<'py, T> = Bound<'py, PyArray1<T>>;
type Said<'py> = (Option<Bound<'py, PyBytes>>, Option<Bound<'py, PyBytes>>, bool);
type PageBounds<'py> = (Array<'py, bool>, Vec<Bound<'py, PyBytes>>, Vec<Bound<'py, PyBytes>>, Option<Array<'py, i64>>);

/// Numbers of a chunk that Python gets; see `_core.pyi`.
const NUMBERS: usize = 11;
/// Numbers of a page's header that Python gets.
const PAGE_NUMBERS: usize = 5;

fn refused(fault: Fault) -> PyErr {
    misuse(fault.to_string())
}

/// Rows of so many numbers.
fn table(py: Python<'_>, width: usize, numbers: Vec<i64>) -> PyResult<Bound<'_, PyArray2<i64>>> {
    let table = Array2::from_shape_vec((numbers.len() / width, width), numbers);
    Ok(table.map_err(|error| misuse(error.to_string()))?.into_pyarray(py))
}

fn numbers(chunk: &Chunk) -> [i64; NUMBERS] {
    [
        chunk.data,
        chunk.dictionary.unwrap_or(-1),
        chunk.pages().map_or(-1, |(_, end)| end),
        chunk.unpacked,
        chunk.values,
        chunk.nulls.map_or(-1, |nulls| if nulls < 0 { i64::MAX } else { nulls }),
        chunk.dictionary_pages.unwrap_or(-1),
        chunk.offset_index.offset,
        chunk.offset_index.length,
        chunk.column_index.offset,
        chunk.column_index.length,
    ]
}

/// The requested part of a Parquet file's footer.
#[pyclass(frozen, module = "penstock._core")]
struct ParquetFooter {
    data: Vec<u8>,
    footer: Footer,
}

#[pymethods]
impl ParquetFooter {
    #[new]
    fn new(py: Python<'_>, data: Vec<u8>, names: Vec<Vec<String>>) -> PyResult<Self> {
        let footer = py.detach(|| Footer::read(&data, &names)).map_err(refused)?;
        Ok(Self { data, footer })
    }

    #[getter]
    fn rows<'py>(&self, py: Python<'py>) -> Array<'py, i64> {
        self.footer.groups.iter().map(|group| group.rows).collect::<Vec<_>>().into_pyarray(py)
    }

    #[getter]
    fn leaves(&self) -> Vec<(Vec<String>, i64, bool, bool)> {
        let told = |(leaf, &ordered): (&Leaf, &bool)| (leaf.path.clone(), leaf.kind, leaf.repeated, ordered);
        self.footer.leaves.iter().zip(&self.footer.ordered).map(told).collect()
    }

    fn chunks<'py>(&self, py: Python<'py>, group: usize) -> PyResult<Bound<'py, PyArray2<i64>>> {
        let group = self.footer.groups.get(group).ok_or_else(|| misuse("no such row group"))?;
        let found: Vec<_> = group.chunks.iter().flat_map(numbers).collect();
        table(py, NUMBERS, found)
    }

    fn bounds<'py>(&self, py: Python<'py>, group: usize, leaf: usize) -> PyResult<Said<'py>> {
        let chunk = self.footer.groups.get(group).and_then(|group| group.chunks.get(leaf));
        let chunk = chunk.ok_or_else(|| misuse("no such column"))?;
        let (low, high, ordered) = chunk.least_and_greatest(self.footer.ordered[leaf]);
        Ok((low.map(|bytes| PyBytes::new(py, bytes)), high.map(|bytes| PyBytes::new(py, bytes)), ordered))
    }

    fn part<'py>(
        &self,
        py: Python<'py>,
        group: usize,
        rows: i64,
        parts: Vec<[i64; 6]>,
        arrow: &[u8],
    ) -> PyResult<Bound<'py, PyBytes>> {
        let parts = parts.iter().map(|&[leaf, values, dictionary, data, packed, unpacked]| {
            let leaf = usize::try_from(leaf).map_err(|_| misuse("no such column"))?;
            let dictionary = Some(dictionary).filter(|&offset| offset >= 0);
            Ok(Part { leaf, values, dictionary, data, packed, unpacked })
        });
        let parts = parts.collect::<PyResult<Vec<_>>>()?;
        let made = self.footer.of_part(&self.data, group, rows, &parts, arrow).map_err(refused)?;
        Ok(PyBytes::new(py, &made))
    }
}

/// Where a column's pages lie, and the row that each begins with.
#[pyfunction]
fn parquet_pages<'py>(
    py: Python<'py>,
    data: Bytes<'_>,
    rows: i64,
    begin: i64,
    end: i64,
) -> PyResult<(Array<'py, i64>, Array<'py, i64>, Array<'py, i64>)> {
    let data = data.as_slice()?;
    let found = py.detach(|| Pages::read(data, rows, (begin, end))).map_err(refused)?;
    Ok((found.offset.into_pyarray(py), found.length.into_pyarray(py), found.first_row.into_pyarray(py)))
}

/// What is said of each page of a column.
#[pyfunction]
fn parquet_page_bounds<'py>(py: Python<'py>, data: Bytes<'_>, pages: usize) -> PyResult<PageBounds<'py>> {
    let data = data.as_slice()?;
    let found = py.detach(|| Bounds::read(data, pages)).map_err(refused)?;
    let given = |texts: &[Vec<u8>]| texts.iter().map(|text| PyBytes::new(py, text)).collect();
    let (low, high) = (given(&found.low), given(&found.high));
    Ok((found.null.into_pyarray(py), low, high, found.nulls.map(|nulls| nulls.into_pyarray(py))))
}

/// What the headers of pages say, that lie at these places of a buffer.
#[pyfunction]
fn parquet_page_headers<'py>(
    py: Python<'py>,
    buffer: Bytes<'_>,
    at: Ids<'_>,
    length: Ids<'_>,
) -> PyResult<Bound<'py, PyArray2<i64>>> {
    let (buffer, at, length) = (buffer.as_slice()?, at.as_slice()?, length.as_slice()?);
    let found = py.detach(|| {
        let mut found = Vec::with_capacity(at.len() * PAGE_NUMBERS);
        for (&at, &length) in at.iter().zip(length) {
            let begin = usize::try_from(at).ok();
            let data = begin.and_then(|at| buffer.get(at..)?.get(..usize::try_from(length).ok()?));
            let page = Page::read(data.ok_or_else(|| misuse("pages outside the buffer"))?).map_err(refused)?;
            let rows = page.rows.unwrap_or(-1);
            found.extend([
                i64::from(page.is_dictionary),
                i64::from(page.needs_dictionary),
                page.values,
                rows,
                page.unpacked,
            ]);
        }
        Ok::<_, PyErr>(found)
    })?;
    table(py, PAGE_NUMBERS, found)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ParquetFooter>()?;
    module.add_function(wrap_pyfunction!(parquet_pages, module)?)?;
    module.add_function(wrap_pyfunction!(parquet_page_bounds, module)?)?;
    module.add_function(wrap_pyfunction!(parquet_page_headers, module)?)
}
