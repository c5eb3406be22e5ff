//! Rows of pixels in blocks, whose loops the compiler vectorises.

use super::super::super::resample::{Planes, pitch_of};

/// Pixels of a block.
pub(super) const LANES: usize = 32;

/// Red, green and blue of a block.
pub(super) type Block = [[u8; LANES]; 3];

/// Changes the pixels of a row of RGB; those of a block that goes beyond it mean nothing.
#[inline(always)]
pub(super) fn each_block(planes: Planes<'_>, out: &mut [u8], change: impl Fn(&Block, &mut Block)) {
    let pitch = pitch_of(planes.width);
    let (mut before, mut after) = ([[0; LANES]; 3], [[0; LANES]; 3]);
    for first in (0..planes.width).step_by(LANES) {
        let count = LANES.min(planes.width - first);
        for (channel, block) in before.iter_mut().enumerate() {
            let from = &planes.plane(channel)[first..][..count];
            match from.first_chunk() {
                Some(whole) => *block = *whole,
                None => block[..count].copy_from_slice(from),
            }
        }
        change(&before, &mut after);
        for (channel, block) in after.iter().enumerate() {
            out[channel * pitch + first..][..LANES].copy_from_slice(block);
        }
    }
}
