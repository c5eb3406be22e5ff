//! The two passes of a resize: plain code here, and the choice among instructions.

use super::filter::Axis;
use super::simd::Level;
use super::sum::Sum;
#[cfg(target_arch = "x86_64")]
use super::{plane_avx2, resample_avx2};

/// Horizontal weights in the order that SIMD code wants.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Debug, Default)]
pub struct Packed {
    pixels: resample_avx2::Packed,
    plane: plane_avx2::Packed,
}

/// Horizontal weights in the order that SIMD code wants; plain code wants none.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Debug, Default)]
pub struct Packed;

impl Packed {
    /// Puts the horizontal weights in the order that `horizontal` wants for pixels of `channels` bytes (3, or 1); returns the
    /// bytes that it may read of a row.
    pub fn pack(&mut self, level: Level, axis: &Axis, channels: usize) -> usize {
        match (level, channels) {
            (Level::Scalar, _) => 0,
            #[cfg(target_arch = "x86_64")]
            (Level::Avx2(_), 1) => self.plane.pack(axis),
            #[cfg(target_arch = "x86_64")]
            (Level::Avx2(_), _) => self.pixels.pack(axis),
        }
    }

    /// The horizontal pass; `row` holds at least the bytes that `pack` returned for `level`, `axis` and `channels`.
    pub fn horizontal(&self, level: Level, axis: &Axis, channels: usize, row: &[u8], out: &mut [u8], pitch: usize) {
        match (level, channels) {
            (Level::Scalar, 1) => plain_horizontal::<1>(axis, row, out, pitch),
            (Level::Scalar, _) => plain_horizontal::<3>(axis, row, out, pitch),
            #[cfg(target_arch = "x86_64")]
            (Level::Avx2(token), 1) => plane_avx2::horizontal(token, &self.plane, row, out),
            #[cfg(target_arch = "x86_64")]
            (Level::Avx2(token), _) => resample_avx2::horizontal(token, &self.pixels, row, out, pitch),
        }
    }
}

/// The vertical pass; `out` holds a whole number of 32 bytes.
pub fn vertical(level: Level, ring: &[u8], places: &[u32], sum: &Sum<'_>, out: &mut [u8]) {
    match level {
        Level::Scalar => plain_vertical(ring, places, sum, out),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2(token) => resample_avx2::vertical(token, ring, places, sum, out),
    }
}

/// The horizontal pass in plain code: a row of pixels of `CHANNELS` bytes to planes.
fn plain_horizontal<const CHANNELS: usize>(axis: &Axis, row: &[u8], out: &mut [u8], pitch: usize) {
    for (index, &first) in axis.first.iter().enumerate() {
        let sum = Sum::new(axis, index, axis.taps);
        let mut sums = [0; CHANNELS];
        let pixels = row[first as usize * CHANNELS..].as_chunks::<CHANNELS>().0;
        for (tap, pixel) in pixels.iter().take(axis.taps).enumerate() {
            let weight = sum.weight(tap);
            for (sum, &value) in sums.iter_mut().zip(pixel) {
                *sum += weight * i32::from(value);
            }
        }
        for (channel, value) in sums.into_iter().enumerate() {
            out[channel * pitch + index] = sum.round(value);
        }
    }
}

/// The vertical pass in plain code: the weighted sum of the ring's rows that begin at `places`.
fn plain_vertical(ring: &[u8], places: &[u32], sum: &Sum<'_>, out: &mut [u8]) {
    for (column, value) in out.iter_mut().enumerate() {
        let products =
            places.iter().enumerate().map(|(tap, &place)| i32::from(ring[place as usize + column]) * sum.weight(tap));
        *value = sum.round(products.sum());
    }
}
