//! The horizontal pass over one plane with AVX2 for any support, eight taps at a time; `unsafe` as in `resample_avx2`.
#![allow(unsafe_code)]
#![cfg(target_arch = "x86_64")]

use std::arch::x86_64::*;

use super::filter::Axis;
use super::resample_avx2::x86::{Sums, to_bytes};
use super::simd::Token;

/// Pixels of the result that are made at a time.
const BLOCK: usize = 32;
/// Taps of one step.
const TAPS: usize = 8;
/// Weights of one step of eight pixels.
const STEP: usize = 8 * TAPS;

/// Weights as the loop reads them; only [`Packed::pack`] fills it, so that its parts always fit together.
#[derive(Clone, Debug, Default)]
pub struct Packed {
    /// For each group of 8 pixels, each step of 8 taps and each pair (i, i + 4): the eight weights of either.
    weights: Vec<i16>,
    /// The fine weights in the same order, or none.
    fine: Vec<i16>,
    /// For each block, the first byte of each pixel's support in a row.
    places: Vec<[[usize; 8]; 4]>,
    steps: usize,
    fine_bits: u32,
    precision: u32,
    reach: usize,
}

impl Packed {
    /// Lays out the weights of `axis`; returns the bytes that the loop may read from a row's start.
    pub fn pack(&mut self, axis: &Axis) -> usize {
        self.steps = axis.taps.div_ceil(TAPS);
        (self.fine_bits, self.precision) = (axis.fine_bits, axis.precision);
        let blocks = axis.len().div_ceil(BLOCK);
        let size = blocks * self.steps * 4 * STEP;
        lay_out(&axis.weights, axis.taps, size, &mut self.weights);
        lay_out(&axis.fine, axis.taps, if axis.fine_bits > 0 { size } else { 0 }, &mut self.fine);
        self.places.clear();
        self.places.resize(blocks, [[0; 8]; 4]);
        let places = self.places.as_flattened_mut().as_flattened_mut();
        for (place, &first) in places.iter_mut().zip(&axis.first) {
            *place = first as usize;
        }
        self.reach = axis.first.iter().max().copied().unwrap_or(0) as usize + self.steps * TAPS;
        self.reach
    }
}

fn lay_out(weights: &[i16], taps: usize, size: usize, packed: &mut Vec<i16>) {
    packed.clear();
    packed.resize(size, 0);
    let steps = taps.div_ceil(TAPS);
    for (index, weights) in weights.chunks_exact(taps).enumerate() {
        let (group, place) = (index / 8, index % 8);
        let at = group * steps * STEP + place % 4 * 2 * TAPS + place / 4 * TAPS;
        for (step, weights) in weights.chunks(TAPS).enumerate() {
            packed[at + step * STEP..][..weights.len()].copy_from_slice(weights);
        }
    }
}

/// The horizontal pass; with the bits of the plain one in `passes`.
///
/// # Panics
/// If `row` is shorter than [`Packed::pack`] returned, or `out` holds no whole blocks.
pub fn horizontal(_: Token, packed: &Packed, row: &[u8], out: &mut [u8]) {
    assert!(row.len() >= packed.reach && out.len() >= packed.places.len() * BLOCK);
    // SAFETY: the token proves AVX2; the lengths that the loop relies on were asserted.
    unsafe {
        match (packed.steps, packed.fine_bits) {
            (1, 0) => blocks::<1, false>(packed, row, out),
            (_, 0) => blocks::<0, false>(packed, row, out),
            (1, _) => blocks::<1, true>(packed, row, out),
            _ => blocks::<0, true>(packed, row, out),
        }
    }
}

/// `STEPS` is the number of steps of 8 taps, 0 if it is only known at run time; `FINE` tells of fine weights.
///
/// # Safety
/// AVX2; `row` and `out` as [`horizontal`] asserts.
#[target_feature(enable = "avx2")]
unsafe fn blocks<const STEPS: usize, const FINE: bool>(packed: &Packed, row: &[u8], out: &mut [u8]) {
    let steps = if STEPS == 0 { packed.steps } else { STEPS };
    let in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    let row = row.as_ptr();
    let (mut weights, mut fine) = (packed.weights.as_ptr(), packed.fine.as_ptr());
    for (places, out) in packed.places.iter().zip(out.as_chunks_mut::<BLOCK>().0) {
        let mut all: Sums = [[_mm256_setzero_si256(); 4]; 2];
        for (group, places) in places.iter().enumerate() {
            let mut sums: Sums = [[_mm256_setzero_si256(); 4]; 2];
            for step in 0..steps {
                for pair in 0..4 {
                    // SAFETY: every load from `row` stays within the reach that the caller asserted; `packed` holds the
                    // weights of every group and step.
                    unsafe {
                        let (one, two) = (row.add(places[pair] + step * TAPS), row.add(places[pair + 4] + step * TAPS));
                        let bytes = _mm_unpacklo_epi64(_mm_loadl_epi64(one.cast()), _mm_loadl_epi64(two.cast()));
                        let pixels = _mm256_cvtepu8_epi16(bytes);
                        let weight = _mm256_loadu_si256(weights.add(step * STEP + pair * 2 * TAPS).cast());
                        sums[0][pair] = _mm256_add_epi32(sums[0][pair], _mm256_madd_epi16(pixels, weight));
                        if FINE {
                            let weight = _mm256_loadu_si256(fine.add(step * STEP + pair * 2 * TAPS).cast());
                            sums[1][pair] = _mm256_add_epi32(sums[1][pair], _mm256_madd_epi16(pixels, weight));
                        }
                    }
                }
            }
            all[0][group] = across(sums[0]);
            if FINE {
                all[1][group] = across(sums[1]);
            }
            // SAFETY: `packed` holds the weights of every group.
            unsafe {
                weights = weights.add(steps * STEP);
                if FINE {
                    fine = fine.add(steps * STEP);
                }
            }
        }
        // In each half: four bytes of the first group, four of the second and so on.
        let bytes = to_bytes::<FINE>(all, packed.fine_bits, packed.precision);
        let bytes = _mm256_permutevar8x32_epi32(bytes, in_order);
        // SAFETY: the target is 32 bytes long.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), bytes) };
    }
}

/// The sums of each half of four vectors, those of the first halves before those of the second.
#[inline]
#[target_feature(enable = "avx2")]
fn across([a, b, c, d]: [__m256i; 4]) -> __m256i {
    _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d))
}
