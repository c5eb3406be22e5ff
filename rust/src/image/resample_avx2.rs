//! The resize's inner loops with AVX2.
//!
//! `unsafe` here is of two kinds only: calling code that needs AVX2 (sound because a [`Token`] exists only where the
//! processor has it), and loads and stores through pointers (sound because the safe function around them asserts the
//! lengths that the loop relies on before it begins).
#![allow(unsafe_code)]
#![cfg(target_arch = "x86_64")]

use super::filter::Axis;
use super::simd::Token;

/// Pixels of the result that the horizontal code makes at a time.
const BLOCK: usize = 8;
/// Weights of one step (two taps) of one block: four pairs of pixels, 16 weights a pair.
const STEP: usize = 4 * 16;

/// Horizontal weights as the loop reads them; only [`Packed::pack`] fills it, so that its parts always fit together.
#[derive(Clone, Debug, Default)]
pub struct Packed {
    /// For each block of 8 pixels, each step of two taps and each pair (i, i + 4): the two weights three times for either.
    weights: Vec<i16>,
    /// For each block, the first byte of each pixel's support in a row.
    places: Vec<[usize; BLOCK]>,
    steps: usize,
    precision: u32,
    reach: usize,
}

impl Packed {
    /// Lays out the weights of `axis`; returns the bytes that the loop may read from a row's start.
    pub fn pack(&mut self, axis: &Axis) -> usize {
        let blocks = axis.len().div_ceil(BLOCK);
        self.steps = axis.taps.div_ceil(2);
        self.precision = axis.precision;
        self.weights.clear();
        self.weights.resize(blocks * self.steps * STEP, 0);
        self.places.clear();
        self.places.resize(blocks, [0; BLOCK]);
        for (index, (weights, &first)) in axis.weights.chunks_exact(axis.taps).zip(&axis.first).enumerate() {
            let (block, place) = (index / BLOCK, index % BLOCK);
            self.places[block][place] = first as usize * 3;
            let at = block * self.steps * STEP + place % 4 * 16 + place / 4 * 8;
            for (step, pair) in weights.chunks(2).enumerate() {
                let (one, two) = (pair[0], pair.get(1).copied().unwrap_or(0));
                self.weights[at + step * STEP..][..8].copy_from_slice(&[one, two, one, two, one, two, 0, 0]);
            }
        }
        let furthest = axis.first.iter().max().copied().unwrap_or(0) as usize;
        // Two steps share one load of 16 bytes.
        self.reach = furthest * 3 + self.steps.div_ceil(2).saturating_sub(1) * 12 + 16;
        self.reach
    }
}

/// The horizontal pass; see [`super::resample::horizontal`], whose bits it gives.
///
/// # Panics
/// If `row` is shorter than [`Packed::pack`] returned, or `out` holds no three planes of whole blocks.
pub fn horizontal(_: Token, packed: &Packed, row: &[u8], out: &mut [u8], pitch: usize) {
    assert!(row.len() >= packed.reach && pitch >= packed.places.len() * BLOCK && out.len() >= 3 * pitch);
    // SAFETY: the token proves AVX2; the lengths that the loop relies on were asserted.
    unsafe {
        match packed.steps {
            1 => x86::horizontal::<1>(packed, row, out, pitch),
            2 => x86::horizontal::<2>(packed, row, out, pitch),
            _ => x86::horizontal::<0>(packed, row, out, pitch),
        }
    }
}

/// The vertical pass; see [`super::resample::vertical`], whose bits it gives.
///
/// # Panics
/// If a place does not leave room for a row in `ring`, or `out` is not a whole number of 32 bytes.
pub fn vertical(_: Token, ring: &[u8], places: &[u32], weights: &[i16], precision: u32, out: &mut [u8]) {
    assert!(out.len() % 32 == 0 && places.len() == weights.len());
    assert!(places.iter().all(|&place| place as usize + out.len() <= ring.len()));
    // SAFETY: the token proves AVX2; the lengths that the loop relies on were asserted.
    unsafe { x86::vertical(ring, places, weights, precision, out) }
}

mod x86 {
    use std::arch::x86_64::*;

    use super::{BLOCK, Packed, STEP};

    /// `STEPS` is the number of steps of two taps, 0 if it is only known at run time.
    ///
    /// # Safety
    /// AVX2; `row` and `out` as [`super::horizontal`] asserts.
    #[target_feature(enable = "avx2")]
    pub unsafe fn horizontal<const STEPS: usize>(packed: &Packed, row: &[u8], out: &mut [u8], pitch: usize) {
        let steps = if STEPS == 0 { packed.steps } else { STEPS };
        // Bytes of pixels 0, 1 (and 2, 3) of a load, as 16 bits: r0 r1 g0 g1 b0 b1 0 0.
        let low = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
        let high =
            _mm256_broadcastsi128_si256(_mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
        let planar = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
        let lanes = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        let half = _mm256_set1_epi32(1 << (packed.precision - 1));
        let shift = _mm_cvtsi32_si128(packed.precision as i32);
        let (row, mut out) = (row.as_ptr(), out.as_mut_ptr());
        let mut weights = packed.weights.as_ptr();
        for places in &packed.places {
            let mut sums = [half; 4];
            for pair in 0..4 {
                // SAFETY: the caller asserted that every load from `row` and of weights stays inside.
                unsafe {
                    let (mut one, mut two) = (row.add(places[pair]), row.add(places[pair + 4]));
                    let mut weight = weights.add(pair * 16);
                    let mut step = 0;
                    while step < steps {
                        let pixels = _mm256_inserti128_si256::<1>(
                            _mm256_castsi128_si256(_mm_loadu_si128(one.cast())),
                            _mm_loadu_si128(two.cast()),
                        );
                        let products =
                            _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, low), _mm256_loadu_si256(weight.cast()));
                        sums[pair] = _mm256_add_epi32(sums[pair], products);
                        if step + 1 < steps {
                            let products = _mm256_madd_epi16(
                                _mm256_shuffle_epi8(pixels, high),
                                _mm256_loadu_si256(weight.add(STEP).cast()),
                            );
                            sums[pair] = _mm256_add_epi32(sums[pair], products);
                        }
                        step += 2;
                        if step < steps {
                            (one, two, weight) = (one.add(12), two.add(12), weight.add(2 * STEP));
                        }
                    }
                }
            }
            let [a, b, c, d] = sums.map(|sum| _mm256_sra_epi32(sum, shift));
            let bytes = _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
            let planes = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(bytes, planar), lanes);
            let (front, back) = (_mm256_castsi256_si128(planes), _mm256_extracti128_si256::<1>(planes));
            // SAFETY: a plane holds a whole number of blocks, and `packed` the weights of every block.
            unsafe {
                _mm_storel_epi64(out.cast(), front);
                _mm_storel_epi64(out.add(pitch).cast(), _mm_unpackhi_epi64(front, front));
                _mm_storel_epi64(out.add(2 * pitch).cast(), back);
                out = out.add(BLOCK);
                weights = weights.add(steps * STEP);
            }
        }
    }

    /// # Safety
    /// AVX2; every place leaves room for `out.len()` bytes in `ring`; `out` is a whole number of 32 bytes.
    #[target_feature(enable = "avx2")]
    pub unsafe fn vertical(ring: &[u8], places: &[u32], weights: &[i16], precision: u32, out: &mut [u8]) {
        let half = _mm256_set1_epi32(1 << (precision - 1));
        let shift = _mm_cvtsi32_si128(precision as i32);
        let zero = _mm256_setzero_si256();
        let ring = ring.as_ptr();
        for (block, target) in out.chunks_exact_mut(32).enumerate() {
            let column = block * 32;
            let mut sums = [half; 4];
            for (places, weights) in places.chunks(2).zip(weights.chunks(2)) {
                let second = weights.get(1).copied().unwrap_or(0);
                let weight = _mm256_set1_epi32(i32::from(weights[0] as u16) | (i32::from(second as u16) << 16));
                // SAFETY: every place leaves room for a row of the ring.
                let (one, two) = unsafe {
                    let last = places[places.len() - 1] as usize;
                    (
                        _mm256_loadu_si256(ring.add(places[0] as usize + column).cast()),
                        _mm256_loadu_si256(ring.add(last + column).cast()),
                    )
                };
                let (low, high) = (_mm256_unpacklo_epi8(one, two), _mm256_unpackhi_epi8(one, two));
                let pairs = [
                    _mm256_unpacklo_epi8(low, zero),
                    _mm256_unpackhi_epi8(low, zero),
                    _mm256_unpacklo_epi8(high, zero),
                    _mm256_unpackhi_epi8(high, zero),
                ];
                for (sum, pair) in sums.iter_mut().zip(pairs) {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pair, weight));
                }
            }
            let [a, b, c, d] = sums.map(|sum| _mm256_sra_epi32(sum, shift));
            let bytes = _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
            // SAFETY: the target is 32 bytes long.
            unsafe { _mm256_storeu_si256(target.as_mut_ptr().cast(), bytes) };
        }
    }
}
