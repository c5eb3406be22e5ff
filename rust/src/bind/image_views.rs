//! Several programs on images that are decoded once: `run_image_views`.

use numpy::PyReadwriteArray1;
use pyo3::prelude::*;

use super::boxes::{BoxColumn, boxes_of};
use super::image::{ImageProgram, row_error, spans};
use super::watched::watched;
use super::{Bytes, Ids, kernel_pool, misuse};
use crate::core::gather;
use crate::image::batch::{self, How};
use crate::image::decode::Counts;
use crate::image::fault::Fault;

#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the columns of a span, each an array")]
fn run_image_views(
    py: Python<'_>,
    programs: Vec<Py<ImageProgram>>,
    keys: Vec<u64>,
    buffers: Vec<Bytes<'_>>,
    which: Ids<'_>,
    offset: Ids<'_>,
    length: Ids<'_>,
    samples: Ids<'_>,
    mut outs: Vec<PyReadwriteArray1<'_, u8>>,
    threads: usize,
    every_row: bool,
    is_watching: bool,
    boxes: Vec<Option<Py<BoxColumn>>>,
) -> PyResult<(Counts, Option<(usize, &'static str)>)> {
    let samples = samples.as_slice()?;
    let (buffers, which, offset, length) = spans(&buffers, [&which, &offset, &length], samples.len())?;
    if programs.is_empty() || [keys.len(), outs.len(), boxes.len()] != [programs.len(); 3] {
        return Err(misuse("as many keys, outputs and boxes as programs, and at least one, are needed"));
    }
    let mut views = Vec::with_capacity(programs.len());
    for (((program, &key), out), boxes) in programs.iter().zip(&keys).zip(&mut outs).zip(&boxes) {
        let (program, out) = (program.get(), out.as_slice_mut()?);
        program.check_out(samples.len(), out.len())?;
        views.push((&program.0, boxes_of(boxes.as_ref(), samples.len())?, key, out));
    }
    let image = |row: usize| {
        gather::span(&buffers, which[row], offset[row], length[row])
            .ok_or_else(|| Fault::new("a span that lies outside of its buffer", "report this to the maintainers"))
    };
    let pool = kernel_pool(threads)?;
    let how = How { every_row, is_watching };
    let run = |stopped: &_| batch::run_views(&mut views, image, samples, &pool, how, stopped);
    let done = watched(py, &pool, run)?.map_err(|faults| row_error(py, &faults, every_row))?;
    Ok((done.counts, done.loss.map(|(row, loss)| (row, loss.name()))))
}

/// Adds this file's names to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(run_image_views, module)?)
}
