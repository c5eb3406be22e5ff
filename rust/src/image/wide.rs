//! Resizing numbers of 16 bits while they arrive, as Pillow's `ImagingResampleHorizontal_16bpc` and its vertical counterpart do: weights of
//! 64-bit floats, rounded to 16 bits after either pass.

use super::filter::{Axis, AxisTask};
use super::resample::{Planes, Task, pitch_of};
use crate::core::geometry::Rect;

/// A resize in progress; its buffers are reused from image to image.
#[derive(Debug, Default)]
pub struct WideResampler {
    horizontal: Axis,
    vertical: Axis,
    /// As [`Axis::compute_exact`] gives them: of the columns, and of the rows.
    weights: [Vec<f64>; 2],
    line: usize,
    last_row: Option<u32>,
    ring: Vec<u16>,
    output: Vec<u8>,
    taken: usize,
    next: usize,
}

impl WideResampler {
    /// Prepares for `task` and returns the region of the source whose rows must be pushed; see [`super::resample::Resampler::start`].
    pub fn start(&mut self, task: &Task) -> Rect {
        let Task { source, target, window, mirrored, reversed, scaling } = *task;
        let axis = |source, target, first, count, mirrored, reversed| AxisTask {
            source,
            target,
            first,
            count,
            mirrored,
            reversed,
        };
        let columns = axis(source.0, target.0, window.x, window.width, mirrored.0, reversed.0);
        let rows = axis(source.1, target.1, window.y, window.height, mirrored.1, mirrored.1);
        let columns = self.horizontal.compute_exact(&columns, scaling);
        self.weights = [columns, self.vertical.compute_exact(&rows, scaling)];
        self.last_row = (mirrored.1 != reversed.1).then(|| window.height - 1);
        let ((x, width), (y, height)) = (self.horizontal.extent(), self.vertical.extent());
        self.horizontal.rebase(x);
        self.vertical.rebase(y);
        self.line = width as usize * 2;
        self.ring.resize(self.vertical.taps * self.horizontal.len(), 0);
        (self.taken, self.next) = (0, 0);
        Rect { x, y, width, height }
    }

    /// Takes the region's next rows, and hands over the rows of the result that are now complete: the first byte of each number, and the second.
    pub fn push(&mut self, rows: &[u8], emit: &mut dyn FnMut(u32, Planes<'_>)) {
        for row in rows.chunks_exact(self.line.max(1)) {
            self.take(row.as_chunks::<2>().0);
            while !self.is_complete()
                && self.taken >= self.vertical.first[self.next] as usize + self.vertical.length(self.next)
            {
                self.combine();
                let (index, width) = (self.next as u32 - 1, self.horizontal.len());
                let row = self.last_row.map_or(index, |last| last - index);
                emit(row, Planes { bytes: &self.output, pitch: pitch_of(width), width });
            }
        }
    }

    /// Whether every row of the result has been handed over.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.next >= self.vertical.len()
    }

    fn take(&mut self, row: &[[u8; 2]]) {
        let (width, taps) = (self.horizontal.len(), self.horizontal.taps);
        let out = &mut self.ring[self.taken % self.vertical.taps * width..][..width];
        for (index, out) in out.iter_mut().enumerate() {
            let first = self.horizontal.first[index] as usize;
            let pixels = &row[first..first + self.horizontal.length(index)];
            let products = pixels.iter().zip(&self.weights[0][index * taps..]);
            *out = rounded(products.map(|(&pixel, weight)| f64::from(u16::from_ne_bytes(pixel)) * weight).sum());
        }
        self.taken += 1;
    }

    fn combine(&mut self) {
        let (width, taps) = (self.horizontal.len(), self.vertical.taps);
        let (first, length) = (self.vertical.first[self.next] as usize, self.vertical.length(self.next));
        let weights = &self.weights[1][self.next * taps..][..length];
        let pitch = pitch_of(width);
        self.output.resize(2 * pitch, 0);
        for x in 0..width {
            let rows = (first..).map(|row| f64::from(self.ring[row % taps * width + x]));
            let [low, high] = rounded(rows.zip(weights).map(|(value, weight)| value * weight).sum()).to_ne_bytes();
            (self.output[x], self.output[pitch + x]) = (low, high);
        }
        self.next += 1;
    }
}

fn rounded(value: f64) -> u16 {
    (value + 0.5).clamp(0.0, 65_535.0) as u16
}
