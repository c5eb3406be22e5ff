//! The resize's inner loops with AVX2.
//!
//! `unsafe` here is of two kinds only: calling code that needs AVX2 (sound because a [`Token`] exists only where the
//! processor has it), and loads and stores through pointers (sound because the safe function around them asserts the
//! lengths that the loop relies on before it begins).
#![allow(unsafe_code)]
#![cfg(target_arch = "x86_64")]

use super::filter::Axis;
use super::simd::Token;
use super::sum::Sum;

/// Pixels of the result that the horizontal code makes at a time.
const BLOCK: usize = 8;
/// Weights of one step (two taps) of one block: four pairs of pixels, 16 weights a pair.
const STEP: usize = 4 * 16;

/// Horizontal weights as the loop reads them; only [`Packed::pack`] fills it, so that its parts always fit together.
#[derive(Clone, Debug, Default)]
pub struct Packed {
    /// For each block of 8 pixels, each step of two taps and each pair (i, i + 4): the two weights three times for either.
    weights: Vec<i16>,
    /// The fine weights in the same order, or none.
    fine: Vec<i16>,
    /// For each block, the first byte of each pixel's support in a row.
    places: Vec<[usize; BLOCK]>,
    steps: usize,
    fine_bits: u32,
    precision: u32,
    reach: usize,
}

impl Packed {
    /// Lays out the weights of `axis`; returns the bytes that the loop may read from a row's start.
    pub fn pack(&mut self, axis: &Axis) -> usize {
        self.steps = axis.taps.div_ceil(2);
        (self.fine_bits, self.precision) = (axis.fine_bits, axis.precision);
        let size = axis.len().div_ceil(BLOCK) * self.steps * STEP;
        lay_out(&axis.weights, axis.taps, size, &mut self.weights);
        lay_out(&axis.fine, axis.taps, if axis.fine_bits > 0 { size } else { 0 }, &mut self.fine);
        self.places.clear();
        self.places.resize(axis.len().div_ceil(BLOCK), [0; BLOCK]);
        for (place, &first) in self.places.as_flattened_mut().iter_mut().zip(&axis.first) {
            *place = first as usize * 3;
        }
        // Two steps share one load of 16 bytes.
        let furthest = axis.first.iter().max().copied().unwrap_or(0) as usize;
        self.reach = furthest * 3 + self.steps.div_ceil(2).saturating_sub(1) * 12 + 16;
        self.reach
    }
}

fn lay_out(weights: &[i16], taps: usize, size: usize, packed: &mut Vec<i16>) {
    packed.clear();
    packed.resize(size, 0);
    for (index, weights) in weights.chunks_exact(taps).enumerate() {
        let (block, place) = (index / BLOCK, index % BLOCK);
        let at = block * taps.div_ceil(2) * STEP + place % 4 * 16 + place / 4 * 8;
        for (step, pair) in weights.chunks(2).enumerate() {
            let (one, two) = (pair[0], pair.get(1).copied().unwrap_or(0));
            packed[at + step * STEP..][..8].copy_from_slice(&[one, two, one, two, one, two, 0, 0]);
        }
    }
}

/// The horizontal pass; with the bits of the plain one in `passes`.
///
/// # Panics
/// If `row` is shorter than [`Packed::pack`] returned, or `out` holds no three planes of whole blocks.
pub fn horizontal(_: Token, packed: &Packed, row: &[u8], out: &mut [u8], pitch: usize) {
    assert!(row.len() >= packed.reach && pitch >= packed.places.len() * BLOCK && out.len() >= 3 * pitch);
    // SAFETY: the token proves AVX2; the lengths that the loop relies on were asserted.
    unsafe {
        match (packed.steps, packed.fine_bits) {
            (1, 0) => x86::horizontal::<1, false>(packed, row, out, pitch),
            (2, 0) => x86::horizontal::<2, false>(packed, row, out, pitch),
            (_, 0) => x86::horizontal::<0, false>(packed, row, out, pitch),
            (2, _) => x86::horizontal::<2, true>(packed, row, out, pitch),
            _ => x86::horizontal::<0, true>(packed, row, out, pitch),
        }
    }
}

/// The vertical pass; with the bits of the plain one in `passes`.
///
/// # Panics
/// If a place does not leave room for a row in `ring`, or `out` is not a whole number of 32 bytes.
pub fn vertical(_: Token, ring: &[u8], places: &[u32], sum: &Sum<'_>, out: &mut [u8]) {
    assert!(out.len().is_multiple_of(32) && places.len() == sum.weights.len());
    assert!(places.iter().all(|&place| place as usize + out.len() <= ring.len()));
    // SAFETY: the token proves AVX2; the lengths that the loop relies on were asserted.
    unsafe {
        if sum.fine.is_empty() {
            x86::vertical::<false>(ring, places, sum, out);
        } else {
            assert!(places.len() == sum.fine.len());
            x86::vertical::<true>(ring, places, sum, out);
        }
    }
}

pub(super) mod x86 {
    use std::arch::x86_64::*;

    use super::{BLOCK, Packed, STEP, Sum};

    /// The sums of products with the weights, and with the fine weights.
    pub type Sums = [[__m256i; 4]; 2];

    /// Rounds four times eight sums to bytes; in each half, those of the first, second, third and fourth.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn to_bytes<const FINE: bool>(sums: Sums, fine_bits: u32, precision: u32) -> __m256i {
        let half = _mm256_set1_epi32(1 << (precision - 1));
        let (scale, shift) = (_mm_cvtsi32_si128(fine_bits as i32), _mm_cvtsi32_si128(precision as i32));
        let [a, b, c, d] = std::array::from_fn(|part| {
            let coarse = sums[0][part];
            let sum = if FINE { _mm256_add_epi32(_mm256_sll_epi32(coarse, scale), sums[1][part]) } else { coarse };
            _mm256_sra_epi32(_mm256_add_epi32(sum, half), shift)
        });
        _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d))
    }

    /// `STEPS` is the number of steps of two taps, 0 if it is only known at run time; `FINE` tells of fine weights.
    ///
    /// # Safety
    /// AVX2; `row` and `out` as [`super::horizontal`] asserts.
    #[target_feature(enable = "avx2")]
    pub unsafe fn horizontal<const STEPS: usize, const FINE: bool>(
        packed: &Packed,
        row: &[u8],
        out: &mut [u8],
        pitch: usize,
    ) {
        let steps = if STEPS == 0 { packed.steps } else { STEPS };
        // Bytes of pixels 0, 1 (and 2, 3) of a load, as 16 bits: r0 r1 g0 g1 b0 b1 0 0.
        let low = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
        let high =
            _mm256_broadcastsi128_si256(_mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
        let planar = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
        let lanes = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        let (row, mut out) = (row.as_ptr(), out.as_mut_ptr());
        let (mut weights, mut fine) = (packed.weights.as_ptr(), packed.fine.as_ptr());
        for places in &packed.places {
            let mut sums: Sums = [[_mm256_setzero_si256(); 4]; 2];
            for step in 0..steps {
                let mask = if step % 2 == 0 { low } else { high };
                for pair in 0..4 {
                    // SAFETY: every load from `row` stays within the reach that the caller asserted; `packed` holds the
                    // weights of every block and step.
                    unsafe {
                        let place = row.add(step / 2 * 12);
                        let pixels = _mm256_inserti128_si256::<1>(
                            _mm256_castsi128_si256(_mm_loadu_si128(place.add(places[pair]).cast())),
                            _mm_loadu_si128(place.add(places[pair + 4]).cast()),
                        );
                        let pixels = _mm256_shuffle_epi8(pixels, mask);
                        let weight = _mm256_loadu_si256(weights.add(step * STEP + pair * 16).cast());
                        sums[0][pair] = _mm256_add_epi32(sums[0][pair], _mm256_madd_epi16(pixels, weight));
                        if FINE {
                            let weight = _mm256_loadu_si256(fine.add(step * STEP + pair * 16).cast());
                            sums[1][pair] = _mm256_add_epi32(sums[1][pair], _mm256_madd_epi16(pixels, weight));
                        }
                    }
                }
            }
            let bytes = to_bytes::<FINE>(sums, packed.fine_bits, packed.precision);
            let planes = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(bytes, planar), lanes);
            let (front, back) = (_mm256_castsi256_si128(planes), _mm256_extracti128_si256::<1>(planes));
            // SAFETY: a plane holds a whole number of blocks, and `packed` the weights of every block.
            unsafe {
                _mm_storel_epi64(out.cast(), front);
                _mm_storel_epi64(out.add(pitch).cast(), _mm_unpackhi_epi64(front, front));
                _mm_storel_epi64(out.add(2 * pitch).cast(), back);
                out = out.add(BLOCK);
                weights = weights.add(steps * STEP);
                if FINE {
                    fine = fine.add(steps * STEP);
                }
            }
        }
    }

    /// Two weights next to each other, for every lane.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn both(weights: &[i16], tap: usize) -> __m256i {
        let second = weights.get(tap + 1).copied().unwrap_or(0);
        _mm256_set1_epi32(i32::from(weights[tap] as u16) | (i32::from(second as u16) << 16))
    }

    /// # Safety
    /// AVX2; every place leaves room for `out.len()` bytes in `ring`.
    #[target_feature(enable = "avx2")]
    pub unsafe fn vertical<const FINE: bool>(ring: &[u8], places: &[u32], sum: &Sum<'_>, out: &mut [u8]) {
        let zero = _mm256_setzero_si256();
        let ring = ring.as_ptr();
        for (block, target) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let mut sums: Sums = [[zero; 4]; 2];
            for (step, places) in places.chunks(2).enumerate() {
                // SAFETY: every place leaves room for a row of the ring, which is a whole number of 32 bytes.
                let (one, two) = unsafe {
                    let (first, last) = (places[0] as usize, places[places.len() - 1] as usize);
                    (
                        _mm256_loadu_si256(ring.add(first + block * 32).cast()),
                        _mm256_loadu_si256(ring.add(last + block * 32).cast()),
                    )
                };
                let (low, high) = (_mm256_unpacklo_epi8(one, two), _mm256_unpackhi_epi8(one, two));
                let pairs = [
                    _mm256_unpacklo_epi8(low, zero),
                    _mm256_unpackhi_epi8(low, zero),
                    _mm256_unpacklo_epi8(high, zero),
                    _mm256_unpackhi_epi8(high, zero),
                ];
                let weight = both(sum.weights, 2 * step);
                for (sum, pair) in sums[0].iter_mut().zip(pairs) {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pair, weight));
                }
                if FINE {
                    let weight = both(sum.fine, 2 * step);
                    for (sum, pair) in sums[1].iter_mut().zip(pairs) {
                        *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pair, weight));
                    }
                }
            }
            let bytes = to_bytes::<FINE>(sums, sum.fine_bits, sum.precision);
            // SAFETY: the target is 32 bytes long.
            unsafe { _mm256_storeu_si256(target.as_mut_ptr().cast(), bytes) };
        }
    }
}
