//! The horizontal pass over one plane with AVX2; `unsafe` as in `resample_avx2`.
//!
//! Four neighbouring pixels of the result mostly have their supports inside of 16 bytes. Then one load serves all of them: a
//! shuffle for every two taps puts each pixel's bytes beside each other. Where an image shrinks so much that they do not fit, `plane_wide_avx2`
//! takes over.
#![allow(unsafe_code)]
#![cfg(target_arch = "x86_64")]

use std::arch::x86_64::*;

use super::filter::Axis;
use super::plane_wide_avx2 as wide;
use super::resample_avx2::x86::{Sums, to_bytes};
use super::simd::Token;

/// Pixels of the result that are made at a time, in groups.
const BLOCK: usize = 32;
/// Pixels of a group: half of them from one load, half from another.
const GROUP: usize = 8;
/// Bytes of a load.
const WINDOW: usize = 16;

/// One step of two taps of a group.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
struct Step {
    /// Which bytes of a load stand beside each other, each as 16 bits; -1 is a zero.
    bytes: [i8; 32],
    weights: [i16; 16],
    /// The fine weights; zeros where there are none.
    fine: [i16; 16],
}

const NO_STEP: Step = Step { bytes: [-1; 32], weights: [0; 16], fine: [0; 16] };

/// Weights as the loop reads them; only [`Packed::pack`] fills it, so that its parts always fit together.
#[derive(Clone, Debug, Default)]
pub struct Packed {
    /// For each group, its steps.
    steps: Vec<Step>,
    /// For each group, the first byte of either load.
    places: Vec<[u32; 2]>,
    steps_per_group: usize,
    fine_bits: u32,
    precision: u32,
    reach: usize,
    is_wide: bool,
    wide: wide::Packed,
}

impl Packed {
    /// Lays out the weights of `axis`; returns the bytes that the loop may read from a row's start.
    pub fn pack(&mut self, axis: &Axis) -> usize {
        self.steps_per_group = axis.taps.div_ceil(2);
        (self.fine_bits, self.precision) = (axis.fine_bits, axis.precision);
        let groups = axis.len().div_ceil(BLOCK) * (BLOCK / GROUP);
        self.steps.clear();
        self.steps.resize(groups * self.steps_per_group, NO_STEP);
        self.places.clear();
        self.places.resize(groups, [0; 2]);
        self.is_wide = false;
        for (half, firsts) in axis.first.chunks(GROUP / 2).enumerate() {
            let place = firsts.iter().copied().min().unwrap_or(0);
            let furthest = firsts.iter().copied().max().unwrap_or(0);
            if (furthest - place) as usize + axis.taps > WINDOW {
                self.is_wide = true;
                self.reach = self.wide.pack(axis);
                return self.reach;
            }
            self.places[half / 2][half % 2] = place;
            for (pixel, &first) in firsts.iter().enumerate() {
                self.lay_out(axis, half, pixel, (first - place) as usize);
            }
        }
        self.reach = self.places.iter().flatten().copied().max().unwrap_or(0) as usize + WINDOW;
        self.reach
    }

    /// The taps of one pixel of a half group, whose first byte is that of the load at `shift`.
    fn lay_out(&mut self, axis: &Axis, half: usize, pixel: usize, shift: usize) {
        let index = half * (GROUP / 2) + pixel;
        let steps = &mut self.steps[half / 2 * self.steps_per_group..][..self.steps_per_group];
        let at = half % 2 * GROUP + 2 * pixel;
        for tap in 0..axis.taps {
            let (step, place) = (&mut steps[tap / 2], at + tap % 2);
            step.bytes[2 * place] = (shift + tap) as i8;
            step.weights[place] = axis.weights[index * axis.taps + tap];
            if axis.fine_bits > 0 {
                step.fine[place] = axis.fine[index * axis.taps + tap];
            }
        }
    }
}

/// The horizontal pass; with the bits of the plain one in `passes`.
///
/// # Panics
/// If `row` is shorter than [`Packed::pack`] returned, or `out` holds no whole blocks.
pub fn horizontal(token: Token, packed: &Packed, row: &[u8], out: &mut [u8]) {
    if packed.is_wide {
        return wide::horizontal(token, &packed.wide, row, out);
    }
    assert!(row.len() >= packed.reach && out.len() >= packed.places.len() * GROUP);
    // SAFETY: the token proves AVX2; the lengths that the loop relies on were asserted.
    unsafe {
        match (packed.steps_per_group, packed.fine_bits) {
            (1, 0) => blocks::<1, false>(packed, row, out),
            (2, 0) => blocks::<2, false>(packed, row, out),
            (3, 0) => blocks::<3, false>(packed, row, out),
            (_, 0) => blocks::<0, false>(packed, row, out),
            (2, _) => blocks::<2, true>(packed, row, out),
            _ => blocks::<0, true>(packed, row, out),
        }
    }
}

/// `STEPS` is the number of steps of a group, 0 if it is only known at run time; `FINE` tells of fine weights.
///
/// # Safety
/// AVX2; `row` and `out` as [`horizontal`] asserts.
#[target_feature(enable = "avx2")]
unsafe fn blocks<const STEPS: usize, const FINE: bool>(packed: &Packed, row: &[u8], out: &mut [u8]) {
    let steps = if STEPS == 0 { packed.steps_per_group } else { STEPS };
    let in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    let (row, mut step) = (row.as_ptr(), packed.steps.as_ptr());
    let places = packed.places.as_chunks::<{ BLOCK / GROUP }>().0;
    for (places, out) in places.iter().zip(out.as_chunks_mut::<BLOCK>().0) {
        let mut sums: Sums = [[_mm256_setzero_si256(); 4]; 2];
        for (group, &[one, two]) in places.iter().enumerate() {
            // SAFETY: both loads stay within the reach that the caller asserted; `packed` holds the steps of every group.
            unsafe {
                let bytes = _mm256_inserti128_si256::<1>(
                    _mm256_castsi128_si256(_mm_loadu_si128(row.add(one as usize).cast())),
                    _mm_loadu_si128(row.add(two as usize).cast()),
                );
                for _ in 0..steps {
                    let pixels = _mm256_shuffle_epi8(bytes, _mm256_load_si256((&raw const (*step).bytes).cast()));
                    let weights = _mm256_load_si256((&raw const (*step).weights).cast());
                    sums[0][group] = _mm256_add_epi32(sums[0][group], _mm256_madd_epi16(pixels, weights));
                    if FINE {
                        let weights = _mm256_load_si256((&raw const (*step).fine).cast());
                        sums[1][group] = _mm256_add_epi32(sums[1][group], _mm256_madd_epi16(pixels, weights));
                    }
                    step = step.add(1);
                }
            }
        }
        // In each half: four bytes of the first group, four of the second and so on.
        let bytes = _mm256_permutevar8x32_epi32(to_bytes::<FINE>(sums, packed.fine_bits, packed.precision), in_order);
        // SAFETY: the target is 32 bytes long.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), bytes) };
    }
}
