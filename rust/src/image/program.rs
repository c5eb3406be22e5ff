//! A chain of operations on images, and the pass that one image takes through it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::boxes::Boxes;
use super::canvas::Canvas;
use super::chain::{Chain, Drawn, Op, Pass, Row};
use super::contents::{self, Loss};
use super::decode::{Counts, Decoders, Sink, convert_rows};
use super::emit::{Emitter, Format};
use super::exif;
use super::fault::Fault;
use super::header::{self, Header, Kind};
use super::limits::{KEEP_BYTES, Limits};
use super::mode::Mode;
use super::moves::Moved;
use super::ops::Ops;
use super::ops::iou_crop::Beside;
use super::planar::PlanarJpeg;
use super::run_pass::{Buffers, From, Source, To};
use super::simd::Level;
use super::turn::turned;
use crate::core::geometry::Rect;

/// A compiled chain of ops, which runs on every image.
#[derive(Clone, Debug)]
pub struct Program {
    /// The operations with their numbers, which key their random choices.
    pub ops: Ops,
    /// The pixels that ops work on: what files are decoded to.
    pub mode: Mode,
    /// Whether an encoded image must be such that `mode` holds it unchanged.
    pub is_strict: bool,
    /// Whether an encoded image is turned as its EXIF orientation says.
    pub apply_exif: bool,
    /// Whether JPEGs' planes may be resized before their colours are converted.
    pub fast: bool,
    /// Whether what is missing of a cut JPEG becomes grey, as with Pillow's `LOAD_TRUNCATED_IMAGES`, instead of an error.
    pub allow_truncated: bool,
    /// The result of every image.
    pub format: Format,
    /// What an image may ask for.
    pub limits: Limits,
}

/// One image before its decoding.
#[derive(Clone, Copy, Debug)]
pub enum Image<'a> {
    /// A file's bytes.
    Encoded {
        /// All of them.
        data: &'a [u8],
        /// Places inside to start from (see `jpeg::EntryPoints`), made from the same bytes.
        entry_points: Option<&'a [u8]>,
    },
    /// Pixels of the program's mode, row by row.
    Pixels {
        /// All of them.
        bytes: &'a [u8],
        /// Columns and rows.
        size: (u32, u32),
    },
}

/// The pixels of a whole image.
#[derive(Debug)]
pub struct Decoded {
    pixels: Vec<u8>,
    size: (u32, u32),
}

impl Decoded {
    /// The image, for a program of the mode that it was decoded to.
    #[must_use]
    pub fn image(&self) -> Image<'_> {
        Image::Pixels { bytes: &self.pixels, size: self.size }
    }
}

/// A thread's buffers, reused from image to image.
pub struct Worker {
    level: Level,
    emitter: Emitter,
    buffers: Buffers,
    pixels: Vec<u8>,
}

impl Worker {
    /// Buffers for images of `format`.
    #[must_use]
    pub fn new(level: Level, format: Format) -> Self {
        let buffers = Buffers::new(level);
        Self { level, emitter: Emitter::new(level, format), buffers, pixels: Vec::new() }
    }

    /// How many images each decoder did since the last call.
    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.buffers.decoders.counts)
    }

    /// Stores images of `format` from now on; past the caches, where [`Self::finish`] is called behind each.
    pub fn set_format(&mut self, format: Format, past_caches: bool) {
        if *self.emitter.format() != format {
            self.emitter = Emitter::new(self.level, format);
        }
        self.emitter.set_past_caches(past_caches);
    }

    /// Looks for what images lose as RGB from now on, or does not.
    pub const fn watch(&mut self, is_watching: bool) {
        self.buffers.decoders.is_watching = is_watching;
    }

    /// What the last image lost as RGB, if that was looked for.
    pub const fn take_loss(&mut self) -> Option<Loss> {
        self.buffers.decoders.loss.take()
    }

    /// Long images end early from now on, once `stopped` is set.
    pub fn stop_by(&mut self, stopped: &Arc<AtomicBool>) {
        self.buffers.decoders.stopped = Some(Arc::clone(stopped));
    }

    /// Keeps the memory of pixels for the next image, unless it is large.
    pub fn take_back(&mut self, decoded: Decoded) {
        if decoded.pixels.capacity() <= KEEP_BYTES {
            self.pixels = decoded.pixels;
        }
    }

    /// Completes what was stored, so that other threads may read it.
    pub fn finish(&self) {
        self.emitter.finish();
    }
}

impl Program {
    /// The same behind an op, which draws nothing.
    #[must_use]
    pub fn behind(&self, op: Arc<dyn Op>) -> Self {
        let ops = std::iter::once((u64::MAX, op)).chain(self.ops.iter().cloned()).collect();
        Self { ops, ..self.clone() }
    }

    /// The same with boxes beside the image.
    #[must_use]
    pub fn beside(&self, boxes: Boxes) -> Self {
        self.behind(Arc::new(Beside(boxes)))
    }

    /// The passes over an image of the given width and height, and the size of their result.
    ///
    /// # Errors
    /// If an intermediate image would be above the limit of pixels.
    pub fn passes(&self, size: (u32, u32), key: u64, sample: i64) -> Result<Vec<Pass>, Fault> {
        self.applied(size, key, sample).finish(self.limits.pixels)
    }

    /// Width and height that the operations give to an image of the given width and height, whatever they think of it.
    ///
    /// # Errors
    /// As those of [`Self::passes`].
    pub fn size_after(&self, size: (u32, u32)) -> Result<(u32, u32), Fault> {
        let mut chain = self.applied(size, 0, 0);
        chain.forgive();
        Ok(chain.finish(self.limits.pixels)?.last().map_or(size, |pass| pass.size))
    }

    fn chain(&self, size: (u32, u32), key: u64, sample: i64) -> Chain {
        Chain::new(size, Row { key, sample, mode: self.mode })
    }

    /// The chain of an image of the given width and height, behind all operations.
    #[must_use]
    pub fn applied(&self, size: (u32, u32), key: u64, sample: i64) -> Chain {
        let mut chain = self.chain(size, key, sample);
        self.ops.iter().for_each(|(number, op)| chain.apply(*number, &**op));
        chain
    }

    /// What the operations draw for an image of the given width and height, in order.
    #[must_use]
    pub fn drawn(&self, size: (u32, u32), key: u64, sample: i64) -> Vec<Drawn> {
        let mut chain = self.chain(size, key, sample);
        chain.record();
        self.ops.iter().for_each(|(number, op)| chain.apply(*number, &**op));
        chain.take_drawn()
    }

    /// How the pixels of an image of the given width and height move, step by step.
    #[must_use]
    pub fn moves(&self, size: (u32, u32), key: u64, sample: i64) -> Vec<Moved> {
        let mut chain = self.chain(size, key, sample);
        chain.record_moves();
        self.ops.iter().for_each(|(number, op)| chain.apply(*number, &**op));
        chain.take_moves()
    }

    /// Width and height of an image where operations meet it, by their places in the chain, in order; `size`: where the chain begins.
    #[must_use]
    pub fn sizes_before(&self, places: &[usize], size: (u32, u32), key: u64, sample: i64) -> Vec<(u32, u32)> {
        let (mut chain, mut found) = (self.chain(size, key, sample), Vec::with_capacity(places.len()));
        for (place, (number, op)) in self.ops.iter().enumerate() {
            if places.contains(&place) {
                found.push(chain.size());
            }
            chain.apply(*number, &**op);
        }
        found
    }

    /// Decodes and transforms one image into `out`, which holds exactly one image of the format.
    ///
    /// # Errors
    /// If the bytes are not a valid image, or its size does not lead to the format's.
    pub fn run(
        &self,
        worker: &mut Worker,
        image: Image<'_>,
        key: u64,
        sample: i64,
        out: &mut [u8],
    ) -> Result<(), Fault> {
        let (data, entry_points) = match image {
            Image::Pixels { bytes, size } => {
                return self.transform(worker, size, key, sample, out, None, &mut rows_of(bytes, size.0, self.mode));
            }
            Image::Encoded { data, entry_points } => (data, entry_points),
        };
        let (header, orientation) = self.begin(worker, data)?;
        if orientation != 1 {
            let decoded = self.whole(worker, data, &header, orientation)?;
            let result = self.run(worker, decoded.image(), key, sample, out);
            worker.take_back(decoded);
            return result;
        }
        let size = (header.width, header.height);
        let is_jpeg = header.kind == Kind::Jpeg;
        let jpeg =
            if is_jpeg && self.mode == Mode::Rgb { PlanarJpeg::new(data, entry_points, size, self.fast) } else { None };
        self.transform(worker, size, key, sample, out, jpeg.as_ref(), &mut |decoders, _, region, sink| {
            decoders.rows(data, &header, entry_points, region, self.mode, sink)
        })
    }

    /// All pixels of an encoded image, for several programs. Give them back with [`Worker::take_back`].
    ///
    /// # Errors
    /// If the bytes are not a valid image.
    pub fn decode(&self, worker: &mut Worker, data: &[u8]) -> Result<Decoded, Fault> {
        let (header, orientation) = self.begin(worker, data)?;
        self.whole(worker, data, &header, orientation)
    }

    /// The header of an encoded image, and how it is to be turned; the decoders are ready for it.
    fn begin(&self, worker: &mut Worker, data: &[u8]) -> Result<(Header, u8), Fault> {
        let header = header::read(data, self.limits.pixels)?;
        if self.is_strict && contents::mode(data, &header)? != self.mode {
            return Err(other_mode(data, &header, self.mode));
        }
        worker.buffers.decoders.allow_truncated = self.allow_truncated;
        worker.buffers.decoders.limits = self.limits;
        let orientation = if self.apply_exif { exif::orientation(data, header.kind) } else { 1 };
        Ok((header, orientation))
    }

    fn whole(&self, worker: &mut Worker, data: &[u8], header: &Header, orientation: u8) -> Result<Decoded, Fault> {
        let mut pixels = std::mem::take(&mut worker.pixels);
        let size = turned(&mut worker.buffers.decoders, data, header, orientation, self.mode, &mut pixels)?;
        Ok(Decoded { pixels, size })
    }

    #[expect(clippy::too_many_arguments, reason = "an image's two ways in, and its keys")]
    fn transform(
        &self,
        worker: &mut Worker,
        size: (u32, u32),
        key: u64,
        sample: i64,
        out: &mut [u8],
        jpeg: Option<&PlanarJpeg<'_>>,
        source: &mut Source<'_>,
    ) -> Result<(), Fault> {
        let mut passes = self.passes(size, key, sample)?;
        passes
            .iter()
            .filter_map(|pass| Some((pass.task?, pass.mode)))
            .try_for_each(|(task, mode)| self.limits.check_resize(&task, mode.bytes()))?;
        let last = passes.pop().expect("a chain has at least one pass");
        self.check_size(size, last.size)?;
        let (level, buffers) = (worker.level, &mut worker.buffers);
        let mut from_source = Some((jpeg, source));
        let (mut canvas, mut spare) = (std::mem::take(&mut buffers.canvas), std::mem::take(&mut buffers.spare));
        for pass in &passes {
            spare.reset(pass.size, pass.mode.bytes())?;
            let from = match from_source.take() {
                Some((jpeg, source)) => From::Source(jpeg, source),
                None => From::Canvas(&canvas),
            };
            buffers.pass(pass, from, &mut To::Canvas(&mut spare))?;
            std::mem::swap(&mut canvas, &mut spare);
            pass.whole.iter().try_for_each(|op| op.run(&mut canvas, &mut spare, level))?;
        }
        let from = match from_source {
            Some((jpeg, source)) => From::Source(jpeg, source),
            None => From::Canvas(&canvas),
        };
        buffers.pass(&last, from, &mut To::Image(&mut worker.emitter, out))?;
        if !last.patches.is_empty() {
            worker.emitter.finish(); // what was written past the caches comes before what replaces it
            last.patches.iter().for_each(|patch| patch.write(&self.format, out));
        }
        [&mut canvas, &mut spare].into_iter().for_each(Canvas::shrink);
        (buffers.canvas, buffers.spare) = (canvas, spare);
        Ok(())
    }

    fn check_size(&self, from: (u32, u32), to: (u32, u32)) -> Result<(), Fault> {
        let Format { width, height, .. } = self.format;
        if to == (width, height) {
            return Ok(());
        }
        Err(Fault::new(
            format!(
                "an image of {} × {} pixels (width × height) that becomes {} × {}, in a batch of {width} × {height}",
                from.0, from.1, to.0, to.1
            ),
            "make all images one size: add RandomResizedCrop(224), or Resize(256) and CenterCrop(224)",
        ))
    }
}

/// Hands over rows of pixels of `mode` that are in memory, `width` of them in each.
fn rows_of<'a>(
    bytes: &'a [u8],
    width: u32,
    mode: Mode,
) -> impl FnMut(&mut Decoders, &mut Vec<u8>, Rect, &mut Sink<'_>) -> Result<(), Fault> + 'a {
    move |_, row, region, sink| {
        convert_rows(bytes, width as usize * mode.bytes(), mode.stored(), region, mode, row, sink);
        Ok(())
    }
}

/// The complaint about an image of another mode than the first one's.
fn other_mode(data: &[u8], header: &Header, wanted: Mode) -> Fault {
    Fault::new(
        format!("{}, in a column whose first image is {:?} unchanged", contents::in_words(data, header), wanted.name()),
        format!("say Decode(mode={:?}) for all of them, or another mode than \"unchanged\"", wanted.name()),
    )
}
