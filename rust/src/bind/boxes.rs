//! Boxes of a batch: `BoxColumn`.

use numpy::PyReadonlyArray1;
use pyo3::prelude::*;

use super::{Ids, misuse};
use crate::image::boxes::{self, BoxFormat, Boxes};
use crate::image::placing::Precision;

/// The boxes of a batch.
#[pyclass(frozen)]
pub struct BoxColumn(pub(super) boxes::BoxColumn);

#[pymethods]
impl BoxColumn {
    #[new]
    fn new(numbers: PyReadonlyArray1<'_, f64>, edges: Ids<'_>, format: &str, precision: &str) -> PyResult<Self> {
        let (boxes, rest) = numbers.as_slice()?.as_chunks::<4>();
        let (format, precision) = (format_named(format)?, precision_named(precision)?);
        let boxes = Boxes { format, precision, boxes: boxes.to_vec() };
        let column = boxes::BoxColumn::new(boxes, ends_of(edges.as_slice()?));
        column.filter(|_| rest.is_empty()).map(Self).ok_or_else(|| misuse("edges that are none of the boxes"))
    }
}

/// Boxes of so many rows, if there are any.
pub fn boxes_of(column: Option<&Py<BoxColumn>>, rows: usize) -> PyResult<Option<&boxes::BoxColumn>> {
    match column.map(|column| &column.get().0) {
        Some(column) if column.rows() != rows => Err(misuse(format!("boxes of {} rows, of {rows}", column.rows()))),
        column => Ok(column),
    }
}

/// The format of that name.
pub fn format_named(name: &str) -> PyResult<BoxFormat> {
    BoxFormat::named(name).ok_or_else(|| misuse(format!("unknown format {name:?}")))
}

/// The precision of that name.
pub fn precision_named(name: &str) -> PyResult<Precision> {
    match name {
        "whole" => Ok(Precision::Whole),
        "single" => Ok(Precision::Single),
        "double" => Ok(Precision::Double),
        _ => Err(misuse(format!("unknown precision {name:?}"))),
    }
}

/// Edges between rows, from 0 on.
pub fn ends_of(edges: &[i64]) -> Vec<usize> {
    edges.iter().map(|&edge| edge.max(0) as usize).collect()
}

/// Adds this file's names to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<BoxColumn>()
}
