//! Rows that are not resized: from where they are, mirrored or not, straight to where they belong.

use super::resample::{Planes, Task, pitch_of};
#[cfg(target_arch = "x86_64")]
use super::shuffle_avx2;
use super::simd::Level;
use super::vectorised::vectorised;
use crate::core::geometry::Rect;

/// A pass that resizes nothing, in progress; its buffers are reused from image to image.
pub(super) struct Straight {
    level: Level,
    planes: usize,
    next: u32,
    window: Rect,
    reversed: (bool, bool),
    split: Vec<u8>,
    turned: Vec<u8>,
}

impl Straight {
    pub(super) fn new(level: Level) -> Self {
        let (split, turned, window) = (Vec::new(), Vec::new(), Rect::default());
        Self { level, planes: 0, next: 0, window, reversed: (false, false), split, turned }
    }

    /// Prepares for `task`, of so many planes, and returns the region of the source whose rows must be pushed.
    pub(super) fn start(&mut self, task: &Task, planes: usize) -> Rect {
        (self.planes, self.next, self.window, self.reversed) = (planes, 0, task.window, task.reversed);
        self.split.resize(planes * pitch_of(task.window.width as usize), 0);
        task.window
    }

    /// Takes the next rows of interleaved pixels, and hands them over: (row of the window, its planes).
    pub(super) fn push(&mut self, rows: &[u8], emit: &mut dyn FnMut(u32, Planes<'_>)) {
        let width = self.window.width as usize;
        let mut split = std::mem::take(&mut self.split);
        for row in rows.chunks_exact(self.planes * width) {
            split_row(self.level, row, self.planes, &mut split);
            self.push_row(Planes { bytes: &split, pitch: pitch_of(width), width }, emit);
        }
        self.split = split;
    }

    /// Takes the next row of each plane, and hands it over.
    pub(super) fn push_planes(&mut self, rows: &[&[u8]], emit: &mut dyn FnMut(u32, Planes<'_>)) {
        let width = self.window.width as usize;
        let mut split = std::mem::take(&mut self.split);
        for (to, row) in split.chunks_exact_mut(pitch_of(width)).zip(rows) {
            to[..width].copy_from_slice(&row[..width]);
        }
        self.push_row(Planes { bytes: &split, pitch: pitch_of(width), width }, emit);
        self.split = split;
    }

    /// Takes the next row, and hands it over.
    pub(super) fn push_row(&mut self, planes: Planes<'_>, emit: &mut dyn FnMut(u32, Planes<'_>)) {
        let (index, (is_mirrored, is_upside_down)) = (self.next, self.reversed);
        self.next += 1;
        let index = if is_upside_down { self.window.height - 1 - index } else { index };
        if !is_mirrored {
            return emit(index, planes);
        }
        let (width, pitch) = (planes.width, pitch_of(planes.width));
        self.turned.resize(self.planes * pitch, 0);
        for (plane, turned) in self.turned.chunks_exact_mut(pitch).enumerate() {
            let (from, to) = (planes.plane(plane), &mut turned[..width]);
            vectorised!(self.level, to.iter_mut().zip(from.iter().rev()).for_each(|(to, &from)| *to = from));
        }
        emit(index, Planes { bytes: &self.turned, pitch, width });
    }

    /// Whether every row has been handed over.
    pub(super) const fn is_complete(&self) -> bool {
        self.next >= self.window.height
    }
}

/// A row of pixels, of so many bytes each, as planes that follow one another at their pitch.
pub(super) fn split_row(level: Level, row: &[u8], planes: usize, out: &mut [u8]) {
    let pitch = pitch_of(row.len() / planes);
    if planes == 3 {
        let (red, others) = out.split_at_mut(pitch);
        let (green, blue) = others.split_at_mut(pitch);
        return split_colours(level, row, [red, green, blue]);
    }
    for (index, plane) in out.chunks_exact_mut(pitch).enumerate() {
        plane.iter_mut().zip(row[index..].iter().step_by(planes)).for_each(|(to, &from)| *to = from);
    }
}

fn split_colours(level: Level, row: &[u8], planes: [&mut [u8]; 3]) {
    match level {
        Level::Scalar => {
            let [red, green, blue] = planes;
            for (((&[r, g, b], red), green), blue) in row.as_chunks::<3>().0.iter().zip(red).zip(green).zip(blue) {
                (*red, *green, *blue) = (r, g, b);
            }
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx2(token) => shuffle_avx2::split(token, row, planes),
    }
}
