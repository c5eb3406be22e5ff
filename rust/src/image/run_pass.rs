//! One pass over an image: its rows, from where they are, resized, in other colours and between margins, to where they belong.

use std::sync::Arc;

use super::canvas::Canvas;
use super::chain::Pass;
use super::decode::{Decoders, Sink};
use super::emit::Emitter;
use super::fault::Fault;
use super::planar::{PlanarJpeg, PlanarResampler};
use super::recolour::Recolour;
use super::resample::{Planes, Resampler, Source as Rows, pitch_of};
use super::simd::Level;
use super::straight::{Straight, split_row};
use super::wide::WideResampler;
use crate::core::geometry::Rect;

/// Hands the rows of a region to a sink.
pub(super) type Source<'a> = dyn FnMut(&mut Decoders, &mut Vec<u8>, Rect, &mut Sink<'_>) -> Result<(), Fault> + 'a;

/// What a thread needs for passes, reused from image to image.
pub(super) struct Buffers {
    level: Level,
    pub(super) decoders: Decoders,
    resampler: Resampler,
    colours: Resampler,
    planes: [Resampler; 3],
    wide: WideResampler,
    split: Vec<u8>,
    straight: Straight,
    planar: PlanarResampler,
    row: Vec<u8>,
    bordered: Vec<u8>,
    coloured: [Vec<u8>; 2],
    pub(super) canvas: Canvas,
    pub(super) spare: Canvas,
}

/// Where a pass gets its rows.
pub(super) enum From<'a, 'b> {
    /// The image, a JPEG where its planes can be had.
    Source(Option<&'a PlanarJpeg<'a>>, &'a mut Source<'b>),
    /// What the pass before made.
    Canvas(&'a Canvas),
}

/// Where a pass puts its rows.
pub(super) enum To<'a> {
    /// The batch.
    Image(&'a mut Emitter, &'a mut [u8]),
    /// What the next pass works on.
    Canvas(&'a mut Canvas),
}

impl To<'_> {
    fn store(&mut self, y: u32, planes: Planes<'_>) {
        match self {
            Self::Image(emitter, out) => emitter.store(y, planes, out),
            Self::Canvas(canvas) => {
                for plane in 0..canvas.planes() {
                    canvas.plane_mut(y as usize, plane).copy_from_slice(planes.plane(plane));
                }
            }
        }
    }
}

impl Buffers {
    pub(super) fn new(level: Level) -> Self {
        Self {
            level,
            decoders: Decoders::default(),
            resampler: Resampler::new(level, Rows::Pixels),
            colours: Resampler::new(level, Rows::Planes(3)),
            planes: [1, 2, 4].map(|planes| Resampler::new(level, Rows::Planes(planes))),
            wide: WideResampler::default(),
            split: Vec::new(),
            straight: Straight::new(level),
            planar: PlanarResampler::new(level),
            row: Vec::new(),
            bordered: Vec::new(),
            coloured: Default::default(),
            canvas: Canvas::default(),
            spare: Canvas::default(),
        }
    }

    /// One pass, from where its rows are to a whole image.
    pub(super) fn pass(&mut self, pass: &Pass, from: From<'_, '_>, to: &mut To<'_>) -> Result<(), Fault> {
        let Self {
            level,
            decoders,
            resampler,
            colours,
            planes: by_plane,
            wide,
            split,
            straight,
            planar,
            row,
            bordered,
            coloured,
            ..
        } = self;
        let mode = pass.mode;
        let inside = pass.task.map_or((0, 0), |task| (task.window.width, task.window.height));
        let is_bordered = inside != pass.size;
        if is_bordered {
            blank(to, mode.bytes(), pass, bordered);
        }
        let Some(task) = pass.task else { return Ok(()) };
        let mut emit = |index: u32, planes: Planes<'_>| {
            let planes = if pass.colours.is_empty() {
                planes
            } else {
                recoloured(planes, mode.bytes(), &pass.colours, coloured, *level)
            };
            if is_bordered {
                to.store(index + pass.offset.1, place(planes, mode.bytes(), pass, bordered));
            } else {
                to.store(index, planes);
            }
        };
        let is_straight = task.source == task.target;
        let is_wide = mode.is_wide() && !task.scaling.filter.is_nearest() && !is_straight;
        let (jpeg, source) = match from {
            From::Source(jpeg, source) => (jpeg, source),
            From::Canvas(canvas) if is_wide => {
                let region = within(wide.start(&task), pass.crop);
                rows_in(canvas, region).for_each(|planes| wide.push(joined(planes, split), &mut emit));
                return complete(wide.is_complete());
            }
            From::Canvas(canvas) if is_straight => {
                let region = within(straight.start(&task, mode.bytes()), pass.crop);
                rows_in(canvas, region).for_each(|planes| straight.push_row(planes, &mut emit));
                return Ok(());
            }
            From::Canvas(canvas) => {
                let resampler = if mode.bytes() == 3 { colours } else { &mut by_plane[mode.bytes() / 2] };
                let region = within(resampler.start(&task), pass.crop);
                for planes in rows_in(canvas, region) {
                    resampler.push_planes(&slices(planes, mode.bytes())[..mode.bytes()], &mut emit);
                }
                return complete(resampler.is_complete());
            }
        };
        if let Some(jpeg) = jpeg.filter(|jpeg| jpeg.resizes_components(pass)) {
            return planar.run(decoders, jpeg, pass.crop, &task, &mut emit);
        }
        if is_wide {
            let region = within(wide.start(&task), pass.crop);
            source(decoders, row, region, &mut |_, rows| wide.push(rows, &mut emit))?;
            return complete(wide.is_complete());
        }
        if is_straight {
            let region = within(straight.start(&task, mode.bytes()), pass.crop);
            match jpeg {
                Some(jpeg) => jpeg.colours(decoders, region, &mut |rows| straight.push_planes(&rows, &mut emit))?,
                None => source(decoders, row, region, &mut |_, rows| straight.push(rows, &mut emit))?,
            }
            return complete(straight.is_complete());
        }
        let resampler = match mode.bytes() {
            3 if jpeg.is_some() => colours,
            3 => resampler,
            planes => &mut by_plane[planes / 2],
        };
        let region = within(resampler.start(&task), pass.crop);
        match (jpeg, mode.bytes()) {
            (Some(jpeg), _) => jpeg.colours(decoders, region, &mut |rows| resampler.push_planes(&rows, &mut emit))?,
            (None, 1 | 3) => source(decoders, row, region, &mut |_, rows| resampler.push(rows, &mut emit))?,
            (None, planes) => source(decoders, row, region, &mut |_, rows| {
                let (width, pitch) = (region.width as usize, pitch_of(region.width as usize));
                split.resize(planes * pitch, 0);
                for row in rows.chunks_exact(planes * width) {
                    split_row(*level, row, planes, split);
                    let rows = slices(Planes { bytes: split, pitch, width }, planes);
                    resampler.push_planes(&rows[..planes], &mut emit);
                }
            })?,
        }
        complete(resampler.is_complete())
    }
}

/// The rows of a part of a canvas.
fn rows_in(canvas: &Canvas, part: Rect) -> impl Iterator<Item = Planes<'_>> {
    (part.y..part.y + part.height).map(move |y| {
        let Planes { bytes, pitch, .. } = canvas.row(y as usize);
        Planes { bytes: &bytes[part.x as usize..], pitch, width: part.width as usize }
    })
}

/// The numbers of 16 bits whose bytes lie in two planes.
fn joined<'a>(planes: Planes<'_>, joined: &'a mut Vec<u8>) -> &'a [u8] {
    joined.clear();
    joined.extend(planes.plane(0).iter().zip(planes.plane(1)).flat_map(|(&first, &second)| [first, second]));
    joined
}

fn within(region: Rect, crop: Rect) -> Rect {
    Rect { x: region.x + crop.x, y: region.y + crop.y, ..region }
}

fn complete(is_complete: bool) -> Result<(), Fault> {
    if is_complete { Ok(()) } else { Err(Fault::damaged("an image with fewer rows than its header states")) }
}

/// The planes, of which there are so many; the others are empty.
fn slices(planes: Planes<'_>, count: usize) -> [&[u8]; 4] {
    std::array::from_fn(|plane| if plane < count { planes.plane(plane) } else { &[] })
}

/// Stores the margin's rows above and below, and leaves a row of them in `bordered`.
fn blank(to: &mut To<'_>, planes: usize, pass: &Pass, bordered: &mut Vec<u8>) {
    let width = pass.size.0 as usize;
    let pitch = pitch_of(width);
    bordered.clear();
    bordered.resize(planes * pitch, 0);
    bordered.chunks_exact_mut(pitch).zip(pass.fill).for_each(|(plane, fill)| plane.fill(fill));
    let inside = pass.task.map_or(0, |task| task.window.height);
    for row in (0..pass.offset.1).chain(pass.offset.1 + inside..pass.size.1) {
        to.store(row, Planes { bytes: bordered, pitch, width });
    }
}

/// A row in other colours; there is at least one change.
fn recoloured<'a>(
    planes: Planes<'_>,
    channels: usize,
    colours: &[Arc<dyn Recolour>],
    rows: &'a mut [Vec<u8>; 2],
    level: Level,
) -> Planes<'a> {
    let (width, pitch) = (planes.width, pitch_of(planes.width));
    let [done, next] = rows;
    done.resize(channels * pitch, 0);
    colours[0].row(planes, done, level);
    for colour in &colours[1..] {
        next.resize(channels * pitch, 0);
        colour.row(Planes { bytes: done, pitch, width }, next, level);
        std::mem::swap(done, next);
    }
    Planes { bytes: done, pitch, width }
}

/// Puts a row at its place between the pixels of the margin.
fn place<'a>(planes: Planes<'_>, channels: usize, pass: &Pass, bordered: &'a mut [u8]) -> Planes<'a> {
    let (width, offset) = (pass.size.0 as usize, pass.offset.0 as usize);
    let pitch = pitch_of(width);
    for channel in 0..channels {
        bordered[channel * pitch + offset..][..planes.width].copy_from_slice(planes.plane(channel));
    }
    Planes { bytes: bordered, pitch, width }
}
