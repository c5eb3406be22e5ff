//! The ways into code that is compiled for AVX2 and BMI2.
#![allow(unsafe_code)] // Calls of functions that need CPU features.

use super::emit::Output;
use super::kernels::{Avx2, has_avx2};
use super::layout::Layout;
use super::rows_avx2;
use super::{DecodeOptions, Decoder, EntryPoints, Header, JpegError, Picture};

/// [`EntryPoints::walk`], compiled for BMI2.
pub(super) fn build(data: &[u8], header: &Header, every_mcus: u32) -> Result<EntryPoints, JpegError> {
    assert!(has_avx2());
    // SAFETY: the CPU has the features, as was just asserted.
    unsafe { build_avx2(data, header, every_mcus) }
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
fn build_avx2(data: &[u8], header: &Header, every_mcus: u32) -> Result<EntryPoints, JpegError> {
    EntryPoints::walk(data, header, every_mcus)
}

/// [`Decoder::decode_with`], compiled for AVX2 and BMI2 (shifts by a register, without flags).
pub(super) fn decode(
    decoder: &mut Decoder,
    data: &[u8],
    header: &Header,
    layout: &Layout,
    options: &DecodeOptions,
    output: &mut Output<'_>,
) -> Result<(), JpegError> {
    assert!(has_avx2());
    // SAFETY: the CPU has the features, as was just asserted.
    unsafe { decode_avx2(decoder, data, header, layout, options, output) }
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
fn decode_avx2(
    decoder: &mut Decoder,
    data: &[u8],
    header: &Header,
    layout: &Layout,
    options: &DecodeOptions,
    output: &mut Output<'_>,
) -> Result<(), JpegError> {
    decoder.decode_with::<Avx2>(data, header, layout, options, output)
}

/// [`super::colour::ycc_planes`] with AVX2.
pub(super) fn ycc_to_rgb(planes: [&mut [u8]; 3]) {
    assert!(has_avx2());
    // SAFETY: the CPU has the features, as was just asserted.
    unsafe { rows_avx2::ycc_planes(planes) }
}

/// [`Picture::recompress_with`], compiled for AVX2.
pub(super) fn recompress(picture: &mut Picture<'_>, quality: u8) {
    assert!(has_avx2());
    // SAFETY: the CPU has the features, as was just asserted.
    unsafe { recompress_avx2(picture, quality) }
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
fn recompress_avx2(picture: &mut Picture<'_>, quality: u8) {
    picture.recompress_with::<Avx2>(quality);
}
