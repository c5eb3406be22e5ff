//! Images: `ImageProgram`, `image_info`, `image_mode` and `decode_image`.

use std::sync::Arc;

use numpy::{PyArray1, PyArray3, PyArrayMethods, PyReadonlyArray4, PyReadwriteArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict};

use super::boxes::{BoxColumn, boxes_of};
use super::entry_points::{Columns, Index};
use super::watched::watched;
use super::{Bytes, Ids, kernel_pool};
use crate::core::gather;
use crate::image::batch::{self, How, RowFault};
use crate::image::boxes;
use crate::image::decode::Counts;
use crate::image::emit::{Format, Layout};
use crate::image::fault::Fault;
use crate::image::limits::Limits;
use crate::image::mode::Mode;
use crate::image::numbers::Dtype;
use crate::image::one_image;
use crate::image::ops::{self, Argument, Arguments, Op, Ops};
use crate::image::program::{Image, Program};

/// A compiled chain of ops for the images of a column; made once, used from any thread.
#[pyclass(frozen)]
pub struct ImageProgram(pub(super) Program);

fn item<'py, T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>>(
    from: &Bound<'py, PyDict>,
    name: &str,
) -> PyResult<T> {
    let value = from.get_item(name)?.ok_or_else(|| PyValueError::new_err(format!("no {name:?} in the description")))?;
    value.extract().map_err(Into::into)
}

/// Buffers, and which of them each row lies in, where and how long; an error unless these are as many as rows.
#[expect(clippy::type_complexity, reason = "the columns of a span, each a slice")]
pub(super) fn spans<'a>(
    buffers: &'a [Bytes<'_>],
    columns: [&'a Ids<'_>; 3],
    rows: usize,
) -> PyResult<(Vec<&'a [u8]>, &'a [i64], &'a [i64], &'a [i64])> {
    let buffers = buffers.iter().map(|buffer| Ok(buffer.as_slice()?)).collect::<PyResult<Vec<&[u8]>>>()?;
    let [which, offset, length] = [columns[0].as_slice()?, columns[1].as_slice()?, columns[2].as_slice()?];
    if [which, offset, length].iter().any(|column| column.len() != rows) {
        return Err(PyValueError::new_err("which, offset, length and samples differ in length"));
    }
    Ok((buffers, which, offset, length))
}

fn mode_named(name: &str) -> PyResult<Mode> {
    Mode::named(name).ok_or_else(|| unknown("mode", name))
}

fn unknown(what: &str, name: &str) -> PyErr {
    PyValueError::new_err(format!("unknown {what} {name:?}"))
}

fn arguments(from: &Bound<'_, PyDict>) -> PyResult<Arguments> {
    let mut found = Arguments::default();
    for (name, value) in from {
        let argument = if value.is_none() {
            continue;
        } else if let Ok(value) = value.cast::<PyBool>() {
            Argument::Switch(value.is_true())
        } else if let Ok(value) = value.extract() {
            Argument::Number(value)
        } else if let Ok((first, second)) = value.extract() {
            Argument::Pair(first, second)
        } else if let Ok(table) = value.cast::<PyBytes>() {
            let table = table.as_bytes().try_into();
            Argument::Table(Box::new(table.map_err(|_| PyValueError::new_err("a table needs 256 bytes"))?))
        } else if let Ok(numbers) = value.extract() {
            Argument::Numbers(numbers)
        } else if let Ok(inside) = value.extract::<Vec<(u64, Bound<'_, PyDict>)>>() {
            Argument::Ops(ops_of(&inside)?)
        } else {
            Argument::Text(value.extract()?)
        };
        found.0.insert(name.extract()?, argument);
    }
    Ok(found)
}

fn op(from: &Bound<'_, PyDict>) -> PyResult<Arc<dyn Op>> {
    ops::make(&item::<String>(from, "op")?, &arguments(from)?).map_err(PyValueError::new_err)
}

fn ops_of(from: &[(u64, Bound<'_, PyDict>)]) -> PyResult<Ops> {
    from.iter().map(|(number, from)| Ok((*number, op(from)?))).collect()
}

fn format(from: &Bound<'_, PyDict>, mode: Mode) -> PyResult<Format> {
    let (dtype, layout): (String, String) = (item(from, "dtype")?, item(from, "layout")?);
    Ok(Format {
        height: item(from, "height")?,
        width: item(from, "width")?,
        channels: mode.channels(),
        is_wide: mode.is_wide(),
        dtype: match dtype.as_str() {
            "uint8" => Dtype::Uint8,
            "uint16" => Dtype::Uint16,
            "float16" => Dtype::Float16,
            "bfloat16" => Dtype::Bfloat16,
            "float32" => Dtype::Float32,
            _ => return Err(unknown("dtype", &dtype)),
        },
        crops: item(from, "crops")?,
        layout: match layout.as_str() {
            "NCHW" => Layout::Nchw,
            "NHWC" => Layout::Nhwc,
            _ => return Err(unknown("layout", &layout)),
        },
        scale: item(from, "scale")?,
        bias: item(from, "bias")?,
    })
}

/// Raises `penstock.errors.RowError(row, found, do)`; with `every_row` it lists those of all rows that failed as its `every`.
pub(super) fn row_error(py: Python<'_>, faults: &[RowFault], every_row: bool) -> PyErr {
    let raise = || {
        let class = py.import("penstock.core.errors")?.getattr("RowError")?;
        let made = |RowFault { row, fault: Fault { found, remedy } }: &RowFault| class.call1((*row, found, remedy));
        let errors = faults.iter().map(made).collect::<PyResult<Vec<_>>>()?;
        let first = errors[0].clone();
        if every_row {
            first.setattr("every", errors)?;
        }
        Ok(first)
    };
    raise().map_or_else(|error| error, PyErr::from_value)
}

fn limited((pixels, image_bytes, ratio): (u64, u64, u64)) -> Limits {
    Limits { pixels, image_bytes, ratio }
}

fn value_error(fault: Fault) -> PyErr {
    PyValueError::new_err(fault.to_string())
}

#[pymethods]
impl ImageProgram {
    #[new]
    fn new(
        ops: Vec<(u64, Bound<'_, PyDict>)>,
        output: &Bound<'_, PyDict>,
        apply_exif: bool,
        fast: bool,
        allow_truncated: bool,
        limits: (u64, u64, u64),
    ) -> PyResult<Self> {
        let ops = ops_of(&ops)?;
        let mode = mode_named(&item::<String>(output, "mode")?)?;
        let last = mode_named(&item::<String>(output, "last_mode")?)?;
        let (format, is_strict) = (format(output, last)?, item(output, "is_strict")?);
        let limits = limited(limits);
        Ok(Self(Program { ops, mode, is_strict, apply_exif, fast, allow_truncated, format, limits }))
    }

    /// The (height, width) of the result for an encoded image.
    fn size_of(&self, py: Python<'_>, data: &[u8]) -> PyResult<(u32, u32)> {
        let size = py.detach(|| one_image::size_after(&self.0, data)).map_err(value_error)?;
        Ok((size.1, size.0))
    }

    /// The (height, width) of the result for pixels of the given height and width.
    fn size_from(&self, height: u32, width: u32) -> PyResult<(u32, u32)> {
        let size = one_image::size_from(&self.0, (width, height)).map_err(value_error)?;
        Ok((size.1, size.0))
    }

    /// Height and width, image after image, where each of the operations at `places` meets it; 0 for bytes that are no image.
    #[expect(clippy::too_many_arguments, reason = "the columns of a span, each an array")]
    fn sizes_before<'py>(
        &self,
        py: Python<'py>,
        places: Vec<usize>,
        buffers: Vec<Bytes<'_>>,
        which: Ids<'_>,
        offset: Ids<'_>,
        length: Ids<'_>,
        samples: Ids<'_>,
        key: u64,
    ) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let samples = samples.as_slice()?;
        let (buffers, which, offset, length) = spans(&buffers, [&which, &offset, &length], samples.len())?;
        let size = |row: usize| self.size_at_start(gather::span(&buffers, which[row], offset[row], length[row]));
        let sizes = py.detach(|| {
            let of_row = |row: usize| match size(row) {
                Some(size) => self.0.sizes_before(&places, size, key, samples[row]),
                None => vec![(0, 0); places.len()],
            };
            (0..samples.len()).flat_map(of_row).flat_map(|(width, height)| [height, width]).collect::<Vec<_>>()
        });
        Ok(PyArray1::from_vec(py, sizes))
    }

    /// Height and width, image after image, where the operations begin; 0 for bytes that are no image.
    fn sizes_at_start<'py>(
        &self,
        py: Python<'py>,
        buffers: Vec<Bytes<'_>>,
        which: Ids<'_>,
        offset: Ids<'_>,
        length: Ids<'_>,
    ) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let rows = which.as_slice()?.len();
        let (buffers, which, offset, length) = spans(&buffers, [&which, &offset, &length], rows)?;
        let size = |row: usize| self.size_at_start(gather::span(&buffers, which[row], offset[row], length[row]));
        let sizes = py.detach(|| {
            (0..rows).map(|row| size(row).unwrap_or_default()).flat_map(|(width, height)| [height, width]).collect()
        });
        Ok(PyArray1::from_vec(py, sizes))
    }

    /// What the operations draw: an op's number, what the number stands for, the row, and the number; nothing of bytes that are no image.
    #[expect(clippy::too_many_arguments, reason = "the columns of a span, each an array")]
    #[pyo3(signature = (buffers, which, offset, length, samples, key, boxes=None))]
    fn drawn(
        &self,
        py: Python<'_>,
        buffers: Vec<Bytes<'_>>,
        which: Ids<'_>,
        offset: Ids<'_>,
        length: Ids<'_>,
        samples: Ids<'_>,
        key: u64,
        boxes: Option<Py<BoxColumn>>,
    ) -> PyResult<Vec<(u64, &'static str, usize, f64)>> {
        let samples = samples.as_slice()?;
        let boxes = boxes_of(boxes.as_ref(), samples.len())?;
        let (buffers, which, offset, length) = spans(&buffers, [&which, &offset, &length], samples.len())?;
        let size = |row: usize| self.size_at_start(gather::span(&buffers, which[row], offset[row], length[row]));
        Ok(py.detach(|| self.drawn_of(samples, key, boxes, size)))
    }

    /// The same for pixels of the given height and width.
    #[pyo3(signature = (height, width, samples, key, boxes=None))]
    fn drawn_from(
        &self,
        py: Python<'_>,
        height: u32,
        width: u32,
        samples: Ids<'_>,
        key: u64,
        boxes: Option<Py<BoxColumn>>,
    ) -> PyResult<Vec<(u64, &'static str, usize, f64)>> {
        let samples = samples.as_slice()?;
        let boxes = boxes_of(boxes.as_ref(), samples.len())?;
        Ok(py.detach(|| self.drawn_of(samples, key, boxes, |_| Some((width, height)))))
    }

    /// The same for pixels of the given height and width.
    fn sizes_before_from(&self, places: Vec<usize>, height: u32, width: u32) -> Vec<(u32, u32)> {
        let sizes = self.0.sizes_before(&places, (width, height), 0, 0);
        sizes.into_iter().map(|(width, height)| (height, width)).collect()
    }

    #[expect(clippy::too_many_arguments, reason = "the columns of a span, each an array")]
    #[pyo3(signature = (buffers, which, offset, length, samples, key, out, threads, entry_points=None, every_row=false, is_watching=false, boxes=None))]
    fn run(
        &self,
        py: Python<'_>,
        buffers: Vec<Bytes<'_>>,
        which: Ids<'_>,
        offset: Ids<'_>,
        length: Ids<'_>,
        samples: Ids<'_>,
        key: u64,
        mut out: PyReadwriteArray1<'_, u8>,
        threads: usize,
        entry_points: Option<Columns<'_>>,
        every_row: bool,
        is_watching: bool,
        boxes: Option<Py<BoxColumn>>,
    ) -> PyResult<(Counts, Option<(usize, &'static str)>)> {
        let (samples, out) = (samples.as_slice()?, out.as_slice_mut()?);
        let rows = samples.len();
        let (buffers, which, offset, length) = spans(&buffers, [&which, &offset, &length], rows)?;
        self.check_out(rows, out.len())?;
        let boxes = boxes_of(boxes.as_ref(), rows)?;
        let index = entry_points.as_ref().map(Index::new).transpose()?;
        let image = |row: usize| {
            let data = gather::span(&buffers, which[row], offset[row], length[row]).ok_or_else(|| {
                Fault::new("a span that lies outside of its buffer", "report this to the maintainers")
            })?;
            let entry_points = index.as_ref().and_then(|index| index.of(samples[row], data));
            Ok(Image::Encoded { data, entry_points })
        };
        let pool = kernel_pool(threads)?;
        let how = How { every_row, is_watching };
        let run = |stopped: &_| batch::run(&self.0, boxes, image, samples, key, out, &pool, how, stopped);
        let done = watched(py, &pool, run)?.map_err(|faults| row_error(py, &faults, every_row))?;
        Ok((done.counts, done.loss.map(|(row, loss)| (row, loss.name()))))
    }

    #[expect(clippy::too_many_arguments, reason = "what is read, what is written and how, each of another kind")]
    #[pyo3(signature = (pixels, samples, key, out, threads, boxes=None))]
    fn run_dense(
        &self,
        py: Python<'_>,
        pixels: PyReadonlyArray4<'_, u8>,
        samples: Ids<'_>,
        key: u64,
        mut out: PyReadwriteArray1<'_, u8>,
        threads: usize,
        boxes: Option<Py<BoxColumn>>,
    ) -> PyResult<()> {
        let (shape, samples, out) = (pixels.as_array().shape().to_vec(), samples.as_slice()?, out.as_slice_mut()?);
        let bytes = pixels.as_slice()?;
        if shape[3] != self.0.mode.bytes() {
            let (found, wanted) = (shape[3], self.0.mode.bytes());
            return Err(PyValueError::new_err(format!("pixels of {found} bytes, instead of {wanted}")));
        }
        let side = |size: usize| u32::try_from(size).map_err(|_| PyValueError::new_err("a side above 2^32"));
        let size = (side(shape[2])?, side(shape[1])?);
        if shape[0] != samples.len() || size.0 == 0 || size.1 == 0 {
            return Err(PyValueError::new_err("pixels and samples differ in length, or the images are empty"));
        }
        self.check_out(samples.len(), out.len())?;
        let boxes = boxes_of(boxes.as_ref(), samples.len())?;
        let row_bytes = shape[1] * shape[2] * shape[3];
        let image = |row: usize| Ok(Image::Pixels { bytes: &bytes[row * row_bytes..(row + 1) * row_bytes], size });
        let pool = kernel_pool(threads)?;
        let run = |stopped: &_| batch::run(&self.0, boxes, image, samples, key, out, &pool, How::default(), stopped);
        let done = watched(py, &pool, run)?;
        done.map(drop).map_err(|faults| row_error(py, &faults, false))
    }
}

impl ImageProgram {
    /// Width and height where the chain begins; None for bytes that are no image.
    fn size_at_start(&self, data: Option<&[u8]>) -> Option<(u32, u32)> {
        one_image::size_at_start(&self.0, data?).ok()
    }

    fn drawn_of(
        &self,
        samples: &[i64],
        key: u64,
        boxes: Option<&boxes::BoxColumn>,
        size: impl Fn(usize) -> Option<(u32, u32)>,
    ) -> Vec<(u64, &'static str, usize, f64)> {
        let of_row = |row: usize| {
            let program = batch::with_boxes(&self.0, boxes, row);
            let drawn = size(row).map(|size| program.drawn(size, key, samples[row])).unwrap_or_default();
            drawn.into_iter().map(move |drawn| (drawn.number, drawn.name, row, drawn.value))
        };
        (0..samples.len()).flat_map(of_row).collect()
    }

    pub(super) fn check_out(&self, rows: usize, bytes: usize) -> PyResult<()> {
        let needed = rows * self.0.format.bytes();
        if bytes == needed {
            return Ok(());
        }
        Err(PyValueError::new_err(format!("out holds {bytes} bytes, {rows} images take {needed}")))
    }
}

/// The (width, height, format) in an image's header.
#[pyfunction]
#[pyo3(signature = (data, apply_exif=false))]
pub fn image_info(data: &[u8], apply_exif: bool) -> PyResult<(u32, u32, &'static str)> {
    one_image::info(data, apply_exif).map_err(value_error)
}

/// The mode that holds an encoded image unchanged, from its header.
#[pyfunction]
pub fn image_mode(data: &[u8]) -> PyResult<&'static str> {
    one_image::mode(data).map(Mode::name).map_err(value_error)
}

/// The image as an array of (height, width, 3) uint8.
#[pyfunction]
#[pyo3(signature = (data, apply_exif=false, limits=(1 << 28, 1 << 30, 1_100)))]
pub fn decode_image<'py>(
    py: Python<'py>,
    data: &[u8],
    apply_exif: bool,
    limits: (u64, u64, u64),
) -> PyResult<Bound<'py, PyArray3<u8>>> {
    let (size, pixels) =
        py.detach(|| one_image::decode(data, Mode::Rgb, apply_exif, limited(limits))).map_err(value_error)?;
    PyArray1::from_vec(py, pixels).reshape([size.1 as usize, size.0 as usize, 3])
}

/// Adds this file's names to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ImageProgram>()?;
    module.add_function(wrap_pyfunction!(image_info, module)?)?;
    module.add_function(wrap_pyfunction!(image_mode, module)?)?;
    module.add_function(wrap_pyfunction!(decode_image, module)?)
}
