//! Channels for channels.

use super::super::super::recolour::Recolour;
use super::super::super::resample::{Planes, pitch_of};
use super::super::super::simd::Level;
use super::Change;

/// Each channel becomes the one whose number stands at its place.
#[must_use]
pub fn shuffled(order: Vec<usize>) -> Change {
    if order.is_sorted() { Change::Nothing } else { Change::rows(Shuffled(order)) }
}

#[derive(Debug)]
struct Shuffled(Vec<usize>);

impl Recolour for Shuffled {
    fn row(&self, planes: Planes<'_>, out: &mut [u8], _: Level) {
        for (out, &from) in out.chunks_exact_mut(pitch_of(planes.width)).zip(&self.0) {
            out[..planes.width].copy_from_slice(planes.plane(from));
        }
    }
}
