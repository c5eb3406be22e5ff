//! The final store with AVX2 and F16C.
//!
//! A whole batch of floats is more than the caches hold. Then rows are written past them, which spares reading the memory
//! that is overwritten.
//!
//! `unsafe` here is of two kinds only: calling code that needs AVX2 (sound because a [`Token`] exists only where the
//! processor has it), and loads and stores through pointers to arrays whose length their type states.
#![allow(unsafe_code)]
#![cfg(target_arch = "x86_64")]

use std::arch::x86_64::*;

use super::numbers::{Affine, Dtype, PERIOD, convert as convert_plain};
use super::resample::Planes;
use super::simd::Token;

const FLOAT16: u8 = 0;
const BFLOAT16: u8 = 1;
const FLOAT32: u8 = 2;
const FLOAT32_PAST_CACHES: u8 = 3;

/// Bytes to numbers; see [`super::numbers::convert`], whose bits it gives. `past_caches` is a wish; after it, [`finish`] must be called
/// before another thread may read what was written.
///
/// # Panics
/// If `out` does not hold as many numbers as there are bytes.
pub fn convert(_: Token, bytes: &[u8], affine: &Affine, dtype: Dtype, past_caches: bool, out: &mut [u8]) {
    assert_eq!(bytes.len() * dtype.size(), out.len());
    let whole = bytes.len() / 8 * 8;
    let past_caches = past_caches && out.as_ptr().addr().is_multiple_of(32);
    let (front, back) = out.split_at_mut(whole * dtype.size());
    // SAFETY: the token proves AVX2 and F16C.
    unsafe {
        match dtype {
            Dtype::Uint8 => front.copy_from_slice(&bytes[..whole]),
            Dtype::Uint16 => convert_plain(&bytes[..whole], affine, dtype, front),
            Dtype::Float16 => whole_eights::<FLOAT16, 16>(&bytes[..whole], affine, front),
            Dtype::Bfloat16 => whole_eights::<BFLOAT16, 16>(&bytes[..whole], affine, front),
            Dtype::Float32 if past_caches => whole_eights::<FLOAT32_PAST_CACHES, 32>(&bytes[..whole], affine, front),
            Dtype::Float32 => whole_eights::<FLOAT32, 32>(&bytes[..whole], affine, front),
        }
    }
    if whole < bytes.len() {
        convert_plain(&bytes[whole..], &affine.rotated(whole % PERIOD), dtype, back);
    }
}

/// Puts what was written past the caches in order with what is written from now on.
pub fn finish(_: Token) {
    // SAFETY: the token proves AVX2, and with it SSE.
    unsafe { _mm_sfence() };
}

/// `SIZE` is the number of bytes that eight numbers take. For `FLOAT32_PAST_CACHES`, `out` begins at a multiple of 32.
#[target_feature(enable = "avx2,f16c")]
fn whole_eights<const KIND: u8, const SIZE: usize>(bytes: &[u8], affine: &Affine, out: &mut [u8]) {
    let (scale, bias) = (load_period(&affine.scale), load_period(&affine.bias));
    let (bytes, _) = bytes.as_chunks::<8>();
    let (out, _) = out.as_chunks_mut::<SIZE>();
    let (bytes, last_bytes) = bytes.as_chunks::<3>();
    let (out, last_out) = out.as_chunks_mut::<3>();
    for (bytes, out) in bytes.iter().zip(out) {
        for part in 0..3 {
            put::<KIND, SIZE>(scaled(&bytes[part], scale[part], bias[part]), &mut out[part]);
        }
    }
    for (part, (bytes, out)) in last_bytes.iter().zip(last_out).enumerate() {
        put::<KIND, SIZE>(scaled(bytes, scale[part], bias[part]), out);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn scaled(bytes: &[u8; 8], scale: __m256, bias: __m256) -> __m256 {
    // SAFETY: eight bytes are read from an array of eight.
    let wide = _mm256_cvtepu8_epi32(unsafe { _mm_loadl_epi64(bytes.as_ptr().cast()) });
    _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(wide), scale), bias)
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn put<const KIND: u8, const SIZE: usize>(values: __m256, out: &mut [u8; SIZE]) {
    let place = out.as_mut_ptr();
    match KIND {
        FLOAT16 => {
            assert!(SIZE == 16);
            // SAFETY: the array holds 16 bytes.
            unsafe { _mm_storeu_si128(place.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values)) }
        }
        BFLOAT16 => {
            assert!(SIZE == 16);
            let bits = _mm256_castps_si256(values);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
            let upper = _mm256_srli_epi32::<16>(rounded);
            let packed = _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(upper, upper));
            // SAFETY: the array holds 16 bytes.
            unsafe { _mm_storeu_si128(place.cast(), _mm256_castsi256_si128(packed)) }
        }
        FLOAT32_PAST_CACHES => {
            assert!(SIZE == 32 && place.addr().is_multiple_of(32));
            // SAFETY: the array holds 32 bytes, and its place is a multiple of them.
            unsafe { _mm256_stream_ps(place.cast(), values) }
        }
        _ => {
            assert!(SIZE == 32);
            // SAFETY: the array holds 32 bytes.
            unsafe { _mm256_storeu_ps(place.cast(), values) }
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_period(values: &[f32; PERIOD]) -> [__m256; 3] {
    let (parts, _) = values.as_chunks::<8>();
    // SAFETY: eight floats are read from an array of eight.
    std::array::from_fn(|part| unsafe { _mm256_loadu_ps(parts[part].as_ptr()) })
}

/// Three planes to interleaved pixels; see [`super::numbers::interleave`], whose bits it gives.
///
/// # Panics
/// If `out` does not hold three bytes a pixel.
pub fn interleave(_: Token, planes: Planes<'_>, out: &mut [u8]) {
    assert_eq!(planes.width * 3, out.len());
    // SAFETY: the token proves AVX2.
    unsafe { whole_sixteens(planes, out) };
    let (red, green, blue) = (planes.plane(0), planes.plane(1), planes.plane(2));
    let done = planes.width / 16 * 16;
    for (index, pixel) in out.as_chunks_mut::<3>().0.iter_mut().enumerate().skip(done) {
        *pixel = [red[index], green[index], blue[index]];
    }
}

/// For one third of 16 pixels' bytes, which pixel's byte of each channel stands where; -1 leaves a zero.
const fn spread(part: usize) -> [[i8; 16]; 3] {
    let mut masks = [[-1; 16]; 3];
    let mut place = 0;
    while place < 16 {
        let byte = part * 16 + place;
        masks[byte % 3][place] = (byte / 3) as i8;
        place += 1;
    }
    masks
}

#[target_feature(enable = "avx2")]
fn whole_sixteens(planes: Planes<'_>, out: &mut [u8]) {
    const MASKS: [[[i8; 16]; 3]; 3] = [spread(0), spread(1), spread(2)];
    let channels = [0, 1, 2].map(|channel| planes.plane(channel).as_chunks::<16>().0);
    for (index, out) in out.as_chunks_mut::<48>().0.iter_mut().enumerate() {
        // SAFETY: sixteen bytes are read from an array of sixteen.
        let pixels = channels.map(|plane| unsafe { _mm_loadu_si128(plane[index].as_ptr().cast()) });
        for (out, masks) in out.as_chunks_mut::<16>().0.iter_mut().zip(&MASKS) {
            let mut bytes = _mm_setzero_si128();
            for (&pixels, mask) in pixels.iter().zip(masks) {
                // SAFETY: sixteen bytes are read from an array of sixteen.
                let mask = unsafe { _mm_loadu_si128(mask.as_ptr().cast()) };
                bytes = _mm_or_si128(bytes, _mm_shuffle_epi8(pixels, mask));
            }
            // SAFETY: sixteen bytes are written to an array of sixteen.
            unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), bytes) };
        }
    }
}
