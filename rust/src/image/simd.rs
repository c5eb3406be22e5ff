//! Which instructions the kernels use: chosen once at run time, the same bits from each.

use super::emit::{self, Affine, Dtype};
use super::filter::Axis;
use super::resample::{self, Planes, Sum};
#[cfg(target_arch = "x86_64")]
use super::{emit_avx2, plane_avx2, resample_avx2};

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

/// Proof that this processor has AVX2 and F16C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(());

impl Token {
    /// The proof, where there is one.
    #[must_use]
    pub fn detect() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("f16c") {
            return Some(Self(()));
        }
        None
    }
}

/// A set of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Plain code.
    Scalar,
    /// AVX2 and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2(Token),
}

impl Default for Level {
    fn default() -> Self {
        Self::best()
    }
}

impl Level {
    /// The fastest that this processor has.
    #[must_use]
    pub fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(token) = Token::detect() {
            return Self::Avx2(token);
        }
        Self::Scalar
    }

    /// Puts the horizontal weights in the order that `horizontal` wants for pixels of `channels` bytes (3, or 1); returns the
    /// bytes that it may read of a row.
    pub fn pack(self, axis: &Axis, channels: usize, packed: &mut Packed) -> usize {
        match (self, channels) {
            (Self::Scalar, _) => 0,
            #[cfg(target_arch = "x86_64")]
            (Self::Avx2(_), 1) => packed.plane.pack(axis),
            #[cfg(target_arch = "x86_64")]
            (Self::Avx2(_), _) => packed.pixels.pack(axis),
        }
    }

    /// The horizontal pass; `row` holds at least the bytes that `pack` returned for `axis` and `channels`.
    pub fn horizontal(self, axis: &Axis, packed: &Packed, channels: usize, row: &[u8], out: &mut [u8], pitch: usize) {
        match (self, channels) {
            (Self::Scalar, 1) => resample::horizontal::<1>(axis, row, out, pitch),
            (Self::Scalar, _) => resample::horizontal::<3>(axis, row, out, pitch),
            #[cfg(target_arch = "x86_64")]
            (Self::Avx2(token), 1) => plane_avx2::horizontal(token, &packed.plane, row, out),
            #[cfg(target_arch = "x86_64")]
            (Self::Avx2(token), _) => resample_avx2::horizontal(token, &packed.pixels, row, out, pitch),
        }
    }

    /// The vertical pass; `out` holds a whole number of 32 bytes.
    pub fn vertical(self, ring: &[u8], places: &[u32], sum: &Sum<'_>, out: &mut [u8]) {
        match self {
            Self::Scalar => resample::vertical(ring, places, sum, out),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(token) => resample_avx2::vertical(token, ring, places, sum, out),
        }
    }

    /// Bytes to numbers; `out` holds exactly as many as there are bytes.
    /// `past_caches` is a hint for results that are not read soon; after it, call [`Self::finish`].
    pub fn convert(self, bytes: &[u8], affine: &Affine, dtype: Dtype, past_caches: bool, out: &mut [u8]) {
        match self {
            Self::Scalar => emit::convert(bytes, affine, dtype, out),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(token) => emit_avx2::convert(token, bytes, affine, dtype, past_caches, out),
        }
    }

    /// Completes what [`Self::convert`] wrote past the caches, so that other threads may read it.
    pub fn finish(self) {
        #[cfg(target_arch = "x86_64")]
        if let Self::Avx2(token) = self {
            emit_avx2::finish(token);
        }
    }

    /// Luma and chroma to red, green and blue, in place.
    pub fn ycc_to_rgb(self, planes: [&mut [u8]; 3]) {
        crate::jpeg::ycc_to_rgb(planes, self == Self::Scalar);
    }

    /// Planes to pixels; `out` holds exactly `channels` bytes a pixel.
    pub fn interleave(self, planes: Planes<'_>, channels: usize, out: &mut [u8]) {
        match self {
            _ if channels != 3 => emit::interleave_any(planes, channels, out),
            Self::Scalar => emit::interleave(planes, out),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(token) => emit_avx2::interleave(token, planes, out),
        }
    }
}
