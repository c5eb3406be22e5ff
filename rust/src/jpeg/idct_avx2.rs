//! The inverse DCTs of two blocks at once with AVX2: one block per 128-bit lane. Same results as `idct.rs`.
#![allow(unsafe_code)] // Vector loads and stores through pointers; each place says why it stays in bounds.

use std::arch::x86_64::*;

use super::idct::{Block, Target};

#[inline]
#[target_feature(enable = "avx2")]
fn load_dequantised(blocks: [&Block; 2], steps: [&[u16; 64]; 2]) -> [__m256i; 8] {
    std::array::from_fn(|row| {
        let at = row * 8;
        // SAFETY: `at + 8 <= 64` elements of 2 bytes in each of the four arrays; unaligned loads.
        let load = |p: *const i16| unsafe { _mm_loadu_si128(p.add(at).cast()) };
        let pair = |a, b| _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(a), b);
        let coefficients = pair(load(blocks[0].0.as_ptr()), load(blocks[1].0.as_ptr()));
        let factors = pair(load(steps[0].as_ptr().cast()), load(steps[1].as_ptr().cast()));
        _mm256_mullo_epi16(coefficients, factors)
    })
}

/// Two constants for `_mm256_madd_epi16` on interleaved inputs.
#[inline]
#[target_feature(enable = "avx2")]
fn weights(first: i16, second: i16) -> __m256i {
    _mm256_set1_epi32(i32::from(first as u16) | i32::from(second) << 16)
}

/// One pass over rows of 16-bit inputs; outputs are rounded, scaled down by 2^SHIFT and saturated to 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn pass<const SHIFT: i32>(x: [__m256i; 8]) -> [__m256i; 8] {
    let round = _mm256_set1_epi32(1 << (SHIFT - 1));
    let zero = _mm256_setzero_si256();
    let (z3, z4) = (_mm256_add_epi16(x[7], x[3]), _mm256_add_epi16(x[5], x[1]));
    let (sum, difference) = (_mm256_add_epi16(x[0], x[4]), _mm256_sub_epi16(x[0], x[4]));
    let half = |high: bool| {
        let mix = |a, b| if high { _mm256_unpackhi_epi16(a, b) } else { _mm256_unpacklo_epi16(a, b) };
        let rotate = |a, b, first: i16, second: i16| _mm256_madd_epi16(mix(a, b), weights(first, second));
        // A 16-bit value in the upper half of 32 bits, shifted right by 3: the value times 2^13.
        let even0 = _mm256_add_epi32(_mm256_srai_epi32::<3>(mix(zero, sum)), round);
        let even1 = _mm256_add_epi32(_mm256_srai_epi32::<3>(mix(zero, difference)), round);
        let even2 = rotate(x[2], x[6], 4433, 4433 - 15137);
        let even3 = rotate(x[2], x[6], 4433 + 6270, 4433);
        let e = [
            _mm256_add_epi32(even0, even3),
            _mm256_add_epi32(even1, even2),
            _mm256_sub_epi32(even1, even2),
            _mm256_sub_epi32(even0, even3),
        ];
        let (turn3, turn4) = (rotate(z3, z4, 9633 - 16069, 9633), rotate(z3, z4, 9633, 9633 - 3196));
        let o = [
            _mm256_add_epi32(rotate(x[7], x[1], -7373, 12299 - 7373), turn4),
            _mm256_add_epi32(rotate(x[5], x[3], -20995, 25172 - 20995), turn3),
            _mm256_add_epi32(rotate(x[5], x[3], 16819 - 20995, -20995), turn4),
            _mm256_add_epi32(rotate(x[7], x[1], 2446 - 7373, -7373), turn3),
        ];
        let up: [__m256i; 4] = std::array::from_fn(|i| _mm256_srai_epi32::<SHIFT>(_mm256_add_epi32(e[i], o[i])));
        let down: [__m256i; 4] = std::array::from_fn(|i| _mm256_srai_epi32::<SHIFT>(_mm256_sub_epi32(e[i], o[i])));
        [up[0], up[1], up[2], up[3], down[3], down[2], down[1], down[0]]
    };
    let (low, high) = (half(false), half(true));
    std::array::from_fn(|i| _mm256_packs_epi32(low[i], high[i]))
}

/// Transposes the 8x8 matrix in each lane.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose(x: [__m256i; 8]) -> [__m256i; 8] {
    let a = [
        _mm256_unpacklo_epi16(x[0], x[1]),
        _mm256_unpacklo_epi16(x[2], x[3]),
        _mm256_unpacklo_epi16(x[4], x[5]),
        _mm256_unpacklo_epi16(x[6], x[7]),
        _mm256_unpackhi_epi16(x[0], x[1]),
        _mm256_unpackhi_epi16(x[2], x[3]),
        _mm256_unpackhi_epi16(x[4], x[5]),
        _mm256_unpackhi_epi16(x[6], x[7]),
    ];
    let mut out = [_mm256_setzero_si256(); 8];
    for (i, half) in [[a[0], a[1], a[2], a[3]], [a[4], a[5], a[6], a[7]]].into_iter().enumerate() {
        let top = [_mm256_unpacklo_epi32(half[0], half[1]), _mm256_unpackhi_epi32(half[0], half[1])];
        let bottom = [_mm256_unpacklo_epi32(half[2], half[3]), _mm256_unpackhi_epi32(half[2], half[3])];
        for k in 0..2 {
            out[i * 4 + k * 2] = _mm256_unpacklo_epi64(top[k], bottom[k]);
            out[i * 4 + k * 2 + 1] = _mm256_unpackhi_epi64(top[k], bottom[k]);
        }
    }
    out
}

/// Writes the 8x8 samples of two blocks.
///
/// # Panics
/// If a block would not lie inside `planes`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn idct_pair(blocks: [&Block; 2], steps: [&[u16; 64]; 2], planes: &mut [u8], to: [Target; 2]) {
    for target in to {
        assert!(target.stride < 1 << 24 && target.offset < planes.len());
        assert!(target.offset + 7 * target.stride + 8 <= planes.len());
    }
    let columns = pass::<11>(load_dequantised(blocks, steps));
    let rows = transpose(pass::<18>(transpose(columns)));
    let centre = _mm256_set1_epi8(-128);
    for pair in 0..4 {
        let bytes = _mm256_xor_si256(_mm256_packs_epi16(rows[pair * 2], rows[pair * 2 + 1]), centre);
        for (lane, target) in [_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes)].into_iter().zip(to)
        {
            let at = target.offset + pair * 2 * target.stride;
            // SAFETY: rows 0..8 of 8 bytes each, `offset + 7 * stride + 8 <= len` was asserted for both targets.
            unsafe {
                let out = planes.as_mut_ptr().add(at);
                _mm_storel_epi64(out.cast(), lane);
                _mm_storeh_pd(out.add(target.stride).cast(), _mm_castsi128_pd(lane));
            }
        }
    }
}

/// One pass of the reduced transform (4 outputs of 8 inputs, of which the fifth has no weight), as [`pass`].
#[inline]
#[target_feature(enable = "avx2")]
fn reduced_pass<const SHIFT: i32>(x: [__m256i; 8]) -> [__m256i; 4] {
    let round = _mm256_set1_epi32(1 << (SHIFT - 1));
    let zero = _mm256_setzero_si256();
    let half = |high: bool| {
        let mix = |a, b| if high { _mm256_unpackhi_epi16(a, b) } else { _mm256_unpacklo_epi16(a, b) };
        let rotate = |a, b, first: i16, second: i16| _mm256_madd_epi16(mix(a, b), weights(first, second));
        // A 16-bit value in the upper half of 32 bits, shifted right by 2: the value times 2^14.
        let even = _mm256_add_epi32(_mm256_srai_epi32::<2>(mix(zero, x[0])), round);
        let turn = rotate(x[2], x[6], 15137, -6270);
        let near = _mm256_add_epi32(rotate(x[7], x[5], -1730, 11893), rotate(x[3], x[1], -17799, 8697));
        let far = _mm256_add_epi32(rotate(x[7], x[5], -4176, -4926), rotate(x[3], x[1], 7373, 20995));
        let (outer, inner) = (_mm256_add_epi32(even, turn), _mm256_sub_epi32(even, turn));
        [
            _mm256_srai_epi32::<SHIFT>(_mm256_add_epi32(outer, far)),
            _mm256_srai_epi32::<SHIFT>(_mm256_add_epi32(inner, near)),
            _mm256_srai_epi32::<SHIFT>(_mm256_sub_epi32(inner, near)),
            _mm256_srai_epi32::<SHIFT>(_mm256_sub_epi32(outer, far)),
        ]
    };
    let (low, high) = (half(false), half(true));
    std::array::from_fn(|i| _mm256_packs_epi32(low[i], high[i]))
}

/// Writes the 4x4 samples of two blocks at scale 1/2.
///
/// # Panics
/// If a block would not lie inside `planes`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn idct_4x4_pair(blocks: [&Block; 2], steps: [&[u16; 64]; 2], planes: &mut [u8], to: [Target; 2]) {
    let zero = _mm256_setzero_si256();
    let [a, b, c, d] = reduced_pass::<12>(load_dequantised(blocks, steps));
    let columns = reduced_pass::<19>(transpose([a, b, c, d, zero, zero, zero, zero]));
    let rows = transpose([columns[0], columns[1], columns[2], columns[3], zero, zero, zero, zero]);
    // Four rows of four samples per lane: 16 bytes.
    let top = _mm256_unpacklo_epi64(rows[0], rows[1]);
    let bottom = _mm256_unpacklo_epi64(rows[2], rows[3]);
    let bytes = _mm256_xor_si256(_mm256_packs_epi16(top, bottom), _mm256_set1_epi8(-128));
    for (lane, target) in [_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes)].into_iter().zip(to) {
        let mut samples = [0u8; 16];
        // SAFETY: a store of 16 bytes to an array of 16.
        unsafe { _mm_storeu_si128(samples.as_mut_ptr().cast(), lane) };
        for (i, row) in samples.chunks_exact(4).enumerate() {
            planes[target.offset + i * target.stride..][..4].copy_from_slice(row);
        }
    }
}

/// Writes the 2x2 samples of two blocks at scale 1/4.
///
/// # Panics
/// If a block would not lie inside `planes`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn idct_2x2_pair(blocks: [&Block; 2], steps: [&[u16; 64]; 2], planes: &mut [u8], to: [Target; 2]) {
    let zero = _mm256_setzero_si256();
    let round = |bits: i32| _mm256_set1_epi32(1 << (bits - 1));
    let x = load_dequantised(blocks, steps);
    let half = |high: bool| {
        let mix = |a, b| if high { _mm256_unpackhi_epi16(a, b) } else { _mm256_unpacklo_epi16(a, b) };
        let rotate = |a, b, first: i16, second: i16| _mm256_madd_epi16(mix(a, b), weights(first, second));
        // A 16-bit value in the upper half of 32 bits, shifted right by 1: the value times 2^15.
        let even = _mm256_add_epi32(_mm256_srai_epi32::<1>(mix(zero, x[0])), round(13));
        let odd = _mm256_add_epi32(rotate(x[7], x[5], -5906, 6967), rotate(x[3], x[1], -10426, 29692));
        [_mm256_add_epi32(even, odd), _mm256_sub_epi32(even, odd)].map(|sum| _mm256_srai_epi32::<13>(sum))
    };
    let (low, high) = (half(false), half(true));
    let rows = [_mm256_packs_epi32(low[0], high[0]), _mm256_packs_epi32(low[1], high[1])];
    // Along the rows: what the odd columns add up to, of the first and the second row.
    let weights = _mm256_broadcastsi128_si256(_mm_setr_epi16(0, 29692, 0, -10426, 0, 6967, 0, -5906));
    let [upper, lower] = rows.map(|row| _mm256_madd_epi16(row, weights));
    let pairs = _mm256_hadd_epi32(upper, lower);
    let odd = _mm256_hadd_epi32(pairs, pairs);
    let even = _mm256_unpacklo_epi16(zero, _mm256_unpacklo_epi16(rows[0], rows[1]));
    let even = _mm256_add_epi32(_mm256_srai_epi32::<1>(even), round(20));
    let sides = [_mm256_add_epi32(even, odd), _mm256_sub_epi32(even, odd)].map(|sum| _mm256_srai_epi32::<20>(sum));
    let samples = _mm256_packs_epi32(_mm256_unpacklo_epi32(sides[0], sides[1]), zero);
    let bytes = _mm256_xor_si256(_mm256_packs_epi16(samples, zero), _mm256_set1_epi8(-128));
    for (lane, target) in [_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes)].into_iter().zip(to) {
        let [a, b, c, d] = _mm_cvtsi128_si32(lane).to_le_bytes();
        planes[target.offset..][..2].copy_from_slice(&[a, b]);
        planes[target.offset + target.stride..][..2].copy_from_slice(&[c, d]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jpeg::idct::{idct_2x2, idct_4x4, idct_8x8};

    #[test]
    fn equal_to_scalar_for_any_coefficients() {
        if !crate::jpeg::kernels::has_avx2() {
            return;
        }
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as i32
        };
        for round in 0..20_000 {
            // From small values to all 16 bits, from sparse to dense, with steps of 8 and of 16 bits.
            let reach = 1 << (1 + round % 16);
            let mut blocks = [Block([0; 64]); 2];
            for value in blocks.iter_mut().flat_map(|block| &mut block.0) {
                *value = if random() % 3 <= round % 4 { (random() % (2 * reach) - reach) as i16 } else { 0 };
            }
            let steps: [u16; 64] = std::array::from_fn(|_| (random() % if round % 5 == 0 { 65536 } else { 64 }) as u16);
            let to = [Target { offset: 3, stride: 24 }, Target { offset: 11, stride: 24 }];
            let (mut expected, mut found) = ([0u8; 200], [0u8; 200]);
            for i in 0..2 {
                idct_8x8(&blocks[i], &steps, &mut expected, to[i]);
            }
            // SAFETY: the CPU has AVX2.
            unsafe { idct_pair([&blocks[0], &blocks[1]], [&steps, &steps], &mut found, to) };
            assert_eq!(found, expected, "round {round}");
            for i in 0..2 {
                idct_4x4(&blocks[i], &steps, &mut expected, to[i]);
            }
            // SAFETY: the CPU has AVX2.
            unsafe { idct_4x4_pair([&blocks[0], &blocks[1]], [&steps, &steps], &mut found, to) };
            assert_eq!(found, expected, "4x4, round {round}");
            for i in 0..2 {
                idct_2x2(&blocks[i], &steps, &mut expected, to[i]);
            }
            // SAFETY: the CPU has AVX2.
            unsafe { idct_2x2_pair([&blocks[0], &blocks[1]], [&steps, &steps], &mut found, to) };
            assert_eq!(found, expected, "2x2, round {round}");
        }
    }
}
