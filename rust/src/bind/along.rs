//! What lies along with images: `moved_boxes`, `moved_points` and `run_masks`.

use numpy::{PyArray1, PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;

use super::boxes::{BoxColumn, boxes_of, ends_of, format_named, precision_named};
use super::image::{ImageProgram, row_error, spans};
use super::watched::watched;
use super::{Bytes, Ids, kernel_pool, misuse};
use crate::core::gather;
use crate::image::along::Along;
use crate::image::batch::How;
use crate::image::boxes::BoxStep;
use crate::image::fault::Fault;
use crate::image::placing::Points;
use crate::image::program::Image;

/// What images are, their sizes, ids and key: as `Along` has them.
type Images<'py> = (Py<ImageProgram>, PyReadonlyArray1<'py, u32>, Ids<'py>, u64, Option<Py<BoxColumn>>);

/// How numbers become others: a name, and numbers or a word that belong to it.
type Step = (String, f64, f64);

fn step((name, a, b): &Step) -> PyResult<BoxStep> {
    match name.as_str() {
        "clamp" => Ok(BoxStep::Clamp),
        "sanitize" => Ok(BoxStep::Sanitize { min_size: *a, min_area: *b }),
        format => Ok(BoxStep::Convert(format_named(format)?)),
    }
}

/// The sizes of images as (width, height), of arrays of height and width.
fn sizes_of(sizes: &[u32], rows: usize) -> PyResult<Vec<(u32, u32)>> {
    let (sizes, rest) = sizes.as_chunks::<2>();
    if sizes.len() != rows || !rest.is_empty() {
        return Err(misuse("as many sizes as samples are needed"));
    }
    Ok(sizes.iter().map(|&[height, width]| (width, height)).collect())
}

/// The numbers of all boxes that are left, how many a row has, and which of all these are.
type MovedBoxes<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

#[pyfunction]
fn moved_boxes<'py>(
    py: Python<'py>,
    images: Images<'_>,
    boxes: &BoxColumn,
    steps: Vec<Step>,
    threads: usize,
) -> PyResult<MovedBoxes<'py>> {
    let (program, sizes, samples, key, _) = &images;
    let samples = samples.as_slice()?;
    let (program, sizes) = (&program.get().0, sizes_of(sizes.as_slice()?, samples.len())?);
    let steps = steps.iter().map(step).collect::<PyResult<Vec<_>>>()?;
    if boxes.0.rows() != samples.len() {
        return Err(misuse("as many rows of boxes as samples are needed"));
    }
    let along = Along { program, boxes: None, sizes: &sizes, samples, key: *key };
    let pool = kernel_pool(threads)?;
    let done = py.detach(|| along.moved_boxes(&boxes.0, &steps, &pool));
    let (mut numbers, mut counts, mut kept) = (Vec::new(), Vec::with_capacity(done.len()), Vec::new());
    for (boxes, left) in done {
        counts.push(left.len() as i64);
        numbers.extend(boxes.boxes.iter().flatten());
        kept.extend(left.iter().map(|&number| number as i64));
    }
    Ok((PyArray1::from_vec(py, numbers), PyArray1::from_vec(py, counts), PyArray1::from_vec(py, kept)))
}

#[pyfunction]
fn moved_points<'py>(
    py: Python<'py>,
    images: Images<'_>,
    numbers: PyReadonlyArray1<'_, f64>,
    edges: Ids<'_>,
    precision: &str,
    threads: usize,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (program, sizes, samples, key, boxes) = &images;
    let samples = samples.as_slice()?;
    let (program, sizes) = (&program.get().0, sizes_of(sizes.as_slice()?, samples.len())?);
    let along = Along { program, boxes: boxes_of(boxes.as_ref(), samples.len())?, sizes: &sizes, samples, key: *key };
    let (every, precision) = (numbers.as_slice()?.as_chunks::<2>().0, precision_named(precision)?);
    let edges = ends_of(edges.as_slice()?);
    let mut points = Vec::with_capacity(samples.len());
    for row in 0..samples.len() {
        let own = edges.get(row..row + 2).and_then(|edges| every.get(edges[0]..edges[1]));
        let own = own.ok_or_else(|| misuse("edges that are none of the points"))?;
        points.push(Points { precision, points: own.iter().map(|&[x, y]| (x, y)).collect() });
    }
    let pool = kernel_pool(threads)?;
    let faults = py.detach(|| along.move_points(&mut points, &pool));
    if !faults.is_empty() {
        return Err(row_error(py, &faults, true));
    }
    let numbers = points.iter().flat_map(|row| row.points.iter().flat_map(|&(x, y)| [x, y])).collect();
    Ok(PyArray1::from_vec(py, numbers))
}

#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the columns of a span, each an array")]
fn run_masks(
    py: Python<'_>,
    images: Images<'_>,
    program: &ImageProgram,
    rows: Ids<'_>,
    buffers: Vec<Bytes<'_>>,
    which: Ids<'_>,
    offset: Ids<'_>,
    length: Ids<'_>,
    pixels: Option<PyReadonlyArray1<'_, u32>>,
    fill: f64,
    mut out: PyReadwriteArray1<'_, u8>,
    threads: usize,
    every_row: bool,
) -> PyResult<()> {
    let (of, sizes, samples, key, boxes) = &images;
    let (samples, out) = (samples.as_slice()?, out.as_slice_mut()?);
    let (of, sizes) = (&of.get().0, sizes_of(sizes.as_slice()?, samples.len())?);
    let along =
        Along { program: of, boxes: boxes_of(boxes.as_ref(), samples.len())?, sizes: &sizes, samples, key: *key };
    let rows = ends_of(rows.as_slice()?);
    let (buffers, which, offset, length) = spans(&buffers, [&which, &offset, &length], rows.len())?;
    if rows.iter().any(|&row| row >= samples.len()) {
        return Err(misuse("a mask of a row that there is not"));
    }
    program.check_out(rows.len(), out.len())?;
    let pixels = pixels.as_ref().map(|pixels| sizes_of(pixels.as_slice()?, rows.len())).transpose()?;
    let mask = |number: usize| {
        let data = gather::span(&buffers, which[number], offset[number], length[number])
            .ok_or_else(|| Fault::new("a span that lies outside of its buffer", "report this to the maintainers"))?;
        let Some(pixels) = &pixels else { return Ok(Image::Encoded { data, entry_points: None }) };
        let size = pixels[number];
        if data.len() != size.0 as usize * size.1 as usize * program.0.mode.bytes() || data.is_empty() {
            return Err(Fault::new("a mask without pixels", "give masks the size of their images"));
        }
        Ok(Image::Pixels { bytes: data, size })
    };
    let pool = kernel_pool(threads)?;
    let how = How { every_row, is_watching: false };
    let run = |stopped: &_| along.run_masks(&program.0, mask, &rows, fill, out, &pool, how, stopped);
    watched(py, &pool, run)?.map(drop).map_err(|faults| row_error(py, &faults, every_row))
}

/// Adds this file's names to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(moved_boxes, module)?)?;
    module.add_function(wrap_pyfunction!(moved_points, module)?)?;
    module.add_function(wrap_pyfunction!(run_masks, module)?)
}
