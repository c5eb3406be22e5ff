//! What a JPEG of some quality loses.

use super::super::super::canvas::Canvas;
use super::super::super::chain::{Chain, Whole};
use super::super::super::fault::Fault;
use super::super::super::limits::try_memory;
use super::super::super::simd::Level;
use super::super::{Arguments, Op};
use super::Change;
use crate::core::keys::Rng;
use crate::jpeg::{Picture, recompress};

/// The image as a JPEG of random quality holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jpeg {
    /// Range of the quality, from 1 to 100, with both ends.
    pub quality: (u8, u8),
}

impl Jpeg {
    pub(in crate::image::ops) fn new(from: &Arguments) -> Result<Self, String> {
        let (low, high) = from.pair("quality")?;
        Ok(Self { quality: (low as u8, high as u8) })
    }
}

impl Op for Jpeg {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        let (low, high) = self.quality;
        let quality = low + rng.below(u64::from(high - low) + 1) as u8;
        chain.drew("quality", quality);
        jpeg(quality).add(chain);
    }
}

/// The pixels that libjpeg reads of what it has written, with the given quality and its other defaults.
#[must_use]
pub fn jpeg(quality: u8) -> Change {
    Change::image(Recompressed(quality))
}

#[derive(Debug)]
struct Recompressed(u8);

impl Whole for Recompressed {
    fn run(&self, canvas: &mut Canvas, _: &mut Canvas, level: Level) -> Result<(), Fault> {
        try_memory(2 * canvas.bytes().len() as u64)?;
        let (size, planes, pitch) = ((canvas.width(), canvas.height()), canvas.planes(), canvas.pitch());
        recompress(&mut Picture { bytes: canvas.bytes_mut(), planes, pitch, size }, self.0, level == Level::Scalar);
        Ok(())
    }
}
