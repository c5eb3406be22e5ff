//! Resizing while the image arrives: rows of a region are pushed in order, rows of the result come out as soon as
//! their support is complete; neither the region nor the result is ever held.
//!
//! Each row is resized horizontally into a small ring, rounded to 8 bits as Pillow does, and the ring's rows are
//! combined vertically. The ring and the result are planar (all red, then green, then blue), so that everything after
//! the horizontal pass is plain arithmetic on bytes. Every path computes the same integers, so SIMD and scalar code give the same
//! bits.

use super::filter::{Axis, AxisTask, Scaling};
use super::passes::{Packed, vertical};
use super::samples::Samples;
use super::simd::Level;
use super::sum::Sum;
use crate::core::geometry::Rect;

/// What is resized to what, and which part of the result is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Width and height before.
    pub source: (u32, u32),
    /// Width and height after.
    pub target: (u32, u32),
    /// The filter.
    pub scaling: Scaling,
    /// The source is mirrored (left-right, top-bottom) before it is resized.
    pub mirrored: (bool, bool),
    /// The part of the target that is wanted.
    pub window: Rect,
    /// The window is mirrored (left-right, top-bottom) at last.
    pub reversed: (bool, bool),
}

/// What comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Rows of interleaved RGB8.
    Pixels,
    /// So many planes, four at most, of one byte a pixel.
    Planes(usize),
}

impl Source {
    /// Bytes from one pixel to the next, and planes of the result.
    const fn counts(self) -> (usize, usize) {
        match self {
            Self::Pixels => (3, 3),
            Self::Planes(planes) => (1, planes),
        }
    }
}

/// One row of the result: planes of one byte a pixel, up to four, `pitch` bytes apart.
#[derive(Clone, Copy, Debug)]
pub struct Planes<'a> {
    /// Red, green and blue, or what a pixel's bytes are.
    pub bytes: &'a [u8],
    /// Bytes from one plane to the next.
    pub pitch: usize,
    /// Pixels in a plane.
    pub width: usize,
}

impl<'a> Planes<'a> {
    /// The bytes of one channel.
    #[must_use]
    pub fn plane(&self, channel: usize) -> &'a [u8] {
        &self.bytes[channel * self.pitch..][..self.width]
    }
}

/// The bytes from one plane of `width` pixels to the next.
#[must_use]
pub const fn pitch_of(width: usize) -> usize {
    width.next_multiple_of(32)
}

/// A resize in progress; its buffers are reused from image to image.
#[derive(Clone, Debug)]
pub struct Resampler {
    level: Level,
    source: Source,
    horizontal: Axis,
    vertical: Axis,
    /// The horizontal weights in the order in which the SIMD code takes them.
    packed: Packed,
    /// Bytes that the horizontal code may read from a row's start.
    reach: usize,
    row_bytes: usize,
    width: usize,
    pitch: usize,
    last_row: Option<u32>,
    ring: Vec<u8>,
    ring_rows: usize,
    padded: Vec<u8>,
    places: Vec<u32>,
    output: Vec<u8>,
    /// Rows of each plane that were taken (interleaved ones: of the first).
    taken: [usize; 4],
    next: usize,
}

impl Resampler {
    /// A resampler that uses the given instructions.
    #[must_use]
    pub fn new(level: Level, source: Source) -> Self {
        Self {
            level,
            source,
            horizontal: Axis::default(),
            vertical: Axis::default(),
            packed: Packed::default(),
            reach: 0,
            row_bytes: 0,
            width: 0,
            pitch: 0,
            last_row: None,
            ring: Vec::new(),
            ring_rows: 0,
            padded: Vec::new(),
            places: Vec::new(),
            output: Vec::new(),
            taken: [0; 4],
            next: 0,
        }
    }

    /// Prepares for `task` and returns the region of the source whose rows must be pushed.
    pub fn start(&mut self, task: &Task) -> Rect {
        let Task { source, target, window, mirrored, reversed, .. } = *task;
        self.horizontal.compute(
            &AxisTask {
                source: source.0,
                target: target.0,
                first: window.x,
                count: window.width,
                mirrored: mirrored.0,
                reversed: reversed.0,
            },
            task.scaling,
        );
        // Rows of an image that is mirrored first come out from the bottom to the top.
        self.vertical.compute(
            &AxisTask {
                source: source.1,
                target: target.1,
                first: window.y,
                count: window.height,
                mirrored: mirrored.1,
                reversed: mirrored.1,
            },
            task.scaling,
        );
        self.last_row = (mirrored.1 != reversed.1).then(|| window.height - 1);
        self.prepare(0)
    }

    /// Prepares for columns and rows (neither mirrored; the rows not reversed) of a source that begins at a pixel of those which
    /// the samples make, and returns the region of the samples whose rows must be pushed. Up to `ahead` rows may be
    /// taken before those of the result that they complete are made.
    pub fn start_placed(&mut self, axes: [(AxisTask, u32, Samples); 2], scaling: Scaling, ahead: usize) -> Rect {
        for (axis, (task, start, samples)) in [&mut self.horizontal, &mut self.vertical].into_iter().zip(axes) {
            axis.compute_placed(&task, scaling, start, samples);
        }
        self.last_row = None;
        self.prepare(ahead)
    }

    fn prepare(&mut self, ahead: usize) -> Rect {
        let (x, width) = self.horizontal.extent();
        let (y, height) = self.vertical.extent();
        self.horizontal.rebase(x);
        self.horizontal.keep_inside(width);
        self.vertical.rebase(y);
        let (channels, _) = self.source.counts();
        self.row_bytes = width as usize * channels;
        self.width = self.horizontal.len();
        self.pitch = pitch_of(self.width);
        self.reach = self.packed.pack(self.level, &self.horizontal, channels).max(self.row_bytes);
        self.padded.resize(self.reach, 0);
        self.ring_rows = self.vertical.taps + ahead;
        self.ring.resize(self.ring_rows * self.row_pitch(), 0);
        self.output.resize(self.row_pitch(), 0);
        (self.taken, self.next) = ([0; 4], 0);
        Rect { x, y, width, height }
    }

    const fn row_pitch(&self) -> usize {
        self.source.counts().1 * self.pitch
    }

    /// Takes the region's next rows (interleaved RGB8, or of the one plane) and hands over the rows of the result that are now
    /// complete: (row of the window, its planes).
    pub fn push(&mut self, rows: &[u8], emit: &mut dyn FnMut(u32, Planes<'_>)) {
        for start in (0..rows.len()).step_by(self.row_bytes.max(1)) {
            self.take(0, &rows[start..]);
            self.emit(emit);
        }
    }

    /// Takes the region's next row of each plane, and hands over as [`Self::push`].
    pub fn push_planes(&mut self, rows: &[&[u8]], emit: &mut dyn FnMut(u32, Planes<'_>)) {
        for (plane, row) in rows.iter().enumerate() {
            self.take(plane, row);
        }
        self.emit(emit);
    }

    fn emit(&mut self, emit: &mut dyn FnMut(u32, Planes<'_>)) {
        let mut output = std::mem::take(&mut self.output);
        while self.is_ready() {
            let index = self.next as u32;
            self.combine(&mut output);
            let row = self.last_row.map_or(index, |last| last - index);
            emit(row, Planes { bytes: &output, pitch: self.pitch, width: self.width });
        }
        self.output = output;
    }

    /// Whether every row of the result has been handed over.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.next >= self.vertical.len()
    }

    /// Whether the next row of the result can be made.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let planes = if let Source::Planes(planes) = self.source { planes } else { 1 };
        let taken = self.taken[..planes].iter().copied().min().unwrap_or(0);
        !self.is_complete() && taken >= self.vertical.first[self.next] as usize + self.vertical.length(self.next)
    }

    /// Takes the region's next row of a plane (0 for interleaved pixels), which `rows` begins with; the more follows it, the better.
    pub fn take(&mut self, plane: usize, rows: &[u8]) {
        let row = self.taken[plane];
        self.taken[plane] += 1;
        let needed = self.vertical.first.get(self.next).map_or(usize::MAX, |&first| first as usize);
        if row < needed {
            return;
        }
        assert!(row - needed < self.ring_rows, "rows that run too far ahead");
        let start = row % self.ring_rows * self.row_pitch();
        let (channels, _) = self.source.counts();
        let out = &mut self.ring[start + plane * self.pitch..][..channels * self.pitch];
        let row = if rows.len() >= self.reach {
            rows
        } else {
            self.padded[..self.row_bytes].copy_from_slice(&rows[..self.row_bytes]);
            &self.padded
        };
        self.packed.horizontal(self.level, &self.horizontal, channels, row, out, self.pitch);
    }

    /// Makes the next row of the result, which must be ready: its planes, one pitch each, which fill `out`.
    pub fn combine(&mut self, out: &mut [u8]) {
        let (first, length) = (self.vertical.first[self.next] as usize, self.vertical.length(self.next));
        let (ring_rows, row_pitch) = (self.ring_rows, self.row_pitch());
        self.places.clear();
        self.places.extend((first..first + length).map(|row| (row % ring_rows * row_pitch) as u32));
        if length == 1 {
            // The one weight is one.
            out.copy_from_slice(&self.ring[self.places[0] as usize..][..row_pitch]);
        } else {
            let sum = Sum::new(&self.vertical, self.next, length);
            vertical(self.level, &self.ring, &self.places, &sum, out);
        }
        self.next += 1;
    }
}
