//! Resizing a JPEG's planes and converting colours at the target's size, instead of the other way round.
//!
//! Chroma comes straight from its own resolution: the decoder's triangle upsampling and the resize are one filter (see
//! `samples`). An image that shrinks by 2, 4 or 8 in both directions is decoded at that part of its size. The result
//! differs from the exact path's by the rounding between, by the clipping of colours before instead of behind the
//! resize, and by what the smaller inverse DCT leaves out.

use super::chain::Pass;
use super::decode::Decoders;
use super::fault::Fault;
use super::filter::AxisTask;
use super::resample::{Planes, Resampler, Source, Task, pitch_of};
use super::samples::Samples;
use super::simd::Level;
use crate::core::geometry::Rect;
use crate::jpeg::{self, Colour, PlaneAxis};

/// Rows that may arrive before the last plane's: those of an MCU row, and what a plane's filter is late.
const AHEAD: usize = 40;

/// A JPEG that comes in planes.
pub struct PlanarJpeg<'a> {
    data: &'a [u8],
    entry_points: Option<&'a [u8]>,
    header: jpeg::Header,
    /// Its planes may be resized before their colours are converted.
    fast: bool,
}

impl<'a> PlanarJpeg<'a> {
    /// None if the image, of the given width and height, is not one for our decoder. `fast` allows to resize its planes as they
    /// are stored, where they are such that this suits.
    #[must_use]
    pub fn new(data: &'a [u8], entry_points: Option<&'a [u8]>, size: (u32, u32), fast: bool) -> Option<Self> {
        let header = jpeg::Header::parse(data).ok()?;
        let is_usual =
            |planes: &[[PlaneAxis; 2]]| planes[0].iter().all(|axis| axis.times == 1) && planes[1] == planes[2];
        let fast = fast
            && header.colour == Colour::YCbCr
            && header.component_count == 3
            && header.planes(1).is_ok_and(|planes| is_usual(&planes));
        let fits = header.is_supported() && (header.width, header.height) == size;
        fits.then_some(Self { data, entry_points, header, fast })
    }

    /// Whether a pass over the image resizes its planes as they are stored: by a filter.
    #[must_use]
    pub fn resizes_components(&self, pass: &Pass) -> bool {
        self.fast && pass.task.is_some_and(|task| !task.scaling.filter.is_nearest())
    }

    /// Hands the rows of `region` to `sink`, red, green and blue each by itself.
    ///
    /// # Errors
    /// If the image cannot be decoded.
    pub fn colours(
        &self,
        decoders: &mut Decoders,
        region: Rect,
        sink: &mut dyn FnMut([&[u8]; 3]),
    ) -> Result<(), Fault> {
        decoders.colours(self.data, &self.header, self.entry_points, region, sink)
    }
}

/// The resizes in progress: of luma, and of both chroma planes.
pub struct PlanarResampler {
    level: Level,
    luma: Resampler,
    chroma: Resampler,
    rgb: Vec<u8>,
}

impl PlanarResampler {
    /// A resampler that uses the given instructions.
    #[must_use]
    pub fn new(level: Level) -> Self {
        let (luma, chroma) = (Resampler::new(level, Source::Planes(1)), Resampler::new(level, Source::Planes(2)));
        Self { level, luma, chroma, rgb: Vec::new() }
    }

    /// Decodes the part of the image that `task` on its part `crop` needs, and hands over the rows of the result: (row of
    /// the window, red, green and blue).
    ///
    /// # Errors
    /// If the image cannot be decoded.
    pub fn run(
        &mut self,
        decoders: &mut Decoders,
        jpeg: &PlanarJpeg<'_>,
        crop: Rect,
        task: &Task,
        emit: &mut dyn FnMut(u32, Planes<'_>),
    ) -> Result<(), Fault> {
        let scale = scale_of(task);
        let parts = self.start(jpeg, crop, task, scale)?;
        let PlanarJpeg { data, entry_points, header, .. } = jpeg;
        let (width, height) = (task.window.width as usize, task.window.height);
        let pitch = pitch_of(width);
        self.rgb.resize(3 * pitch, 0);
        let is_upside_down = task.mirrored.1 != task.reversed.1;
        let mut next = 0;
        let region = region(header, scale, parts[0]);
        decoders.planes(data, header, *entry_points, scale, region, &mut |row| {
            let part = parts[usize::from(row.component > 0)];
            if row.y < part.y as usize {
                return;
            }
            let samples = &row.samples[part.x as usize - row.first_x..];
            match row.component {
                0 => self.luma.take(0, samples),
                component => self.chroma.take(component - 1, samples),
            }
            while self.luma.is_ready() && self.chroma.is_ready() {
                let (y, chroma) = self.rgb.split_at_mut(pitch);
                self.luma.combine(y);
                self.chroma.combine(chroma);
                let (blue, red) = chroma.split_at_mut(pitch);
                jpeg::ycc_to_rgb([y, blue, red], self.level == Level::Scalar);
                emit(if is_upside_down { height - 1 - next } else { next }, Planes { bytes: &self.rgb, pitch, width });
                next += 1;
            }
        })?;
        if next == height { Ok(()) } else { Err(Fault::damaged("an image with fewer rows than its header states")) }
    }

    /// Prepares for a task; returns the part of the luma plane and that of either chroma plane that it needs.
    fn start(&mut self, jpeg: &PlanarJpeg<'_>, crop: Rect, task: &Task, scale: u8) -> Result<[Rect; 2], Fault> {
        let planes = jpeg.header.planes(scale).map_err(Fault::damaged_jpeg)?;
        let (columns, rows) = (columns(task), rows(task));
        let axes = |[x, y]: [PlaneAxis; 2]| [(columns, crop.x, samples(x)), (rows, crop.y, samples(y))];
        Ok([
            self.luma.start_placed(axes(planes[0]), task.scaling, AHEAD),
            self.chroma.start_placed(axes(planes[1]), task.scaling, AHEAD),
        ])
    }
}

/// The part of its size at which an image is decoded: 1 / 2, 1 / 4 or 1 / 8 if it shrinks by as much in both directions.
fn scale_of(task: &Task) -> u8 {
    let shrinks = |by: u32| task.source.0 / by >= task.target.0 && task.source.1 / by >= task.target.1;
    [8, 4, 2].into_iter().find(|&scale| task.scaling.antialias && shrinks(u32::from(scale))).unwrap_or(1)
}

const fn samples(axis: PlaneAxis) -> Samples {
    Samples { count: axis.samples, times: axis.times, triangle: axis.triangle }
}

/// The region that the decoder must give at a scale: at a smaller one, chroma that keeps its size needs its neighbours.
fn region(header: &jpeg::Header, scale: u8, luma: Rect) -> Rect {
    let (width, height) = header.scaled_size(scale);
    let margin = u32::from(scale > 1);
    let (x, y) = (luma.x.saturating_sub(margin), luma.y.saturating_sub(margin));
    let right = (luma.x + luma.width + margin).min(width);
    let bottom = (luma.y + luma.height + margin).min(height);
    Rect { x, y, width: right - x, height: bottom - y }
}

/// The columns of the window, of a source that is not mirrored: the filters are symmetric, so that the result is.
fn columns(task: &Task) -> AxisTask {
    let (count, target, reversed) = (task.window.width, task.target.0, task.mirrored.0 != task.reversed.0);
    let first = if task.mirrored.0 { target - task.window.x - count } else { task.window.x };
    AxisTask { source: task.source.0, target, first, count, mirrored: false, reversed }
}

/// The rows of the window, in the order of the source's.
fn rows(task: &Task) -> AxisTask {
    let (count, target) = (task.window.height, task.target.1);
    let first = if task.mirrored.1 { target - task.window.y - count } else { task.window.y };
    AxisTask { source: task.source.1, target, first, count, mirrored: false, reversed: false }
}
