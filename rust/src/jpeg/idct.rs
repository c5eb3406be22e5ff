//! Dequantisation and inverse DCT in scalar code, equal to libjpeg-turbo's accurate integer transforms ("islow") and
//! its reduced ones for 4x4, 2x2 and 1x1 samples per block.
//!
//! Method: C. Loeffler, A. Ligtenberg, G. Moschytz, ICASSP 1989, with 13-bit constants; the odd part's rotations
//! are combined as in libjpeg-turbo's SIMD code. Like that code, sums of dequantised coefficients wrap at 16 bits and
//! results saturate, so hostile coefficients give the same samples here and in the AVX2 version.

/// Coefficients of one block in natural order (row * 8 + column), aligned for vector loads.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Block(pub [i16; 64]);

/// Where a block's samples go: offset of its first sample in a buffer of planes, and the distance of its rows.
#[derive(Clone, Copy, Default)]
pub(super) struct Target {
    pub offset: usize,
    pub stride: usize,
}

/// The eight outputs of a one-dimensional inverse DCT, before rounding and scaling down.
#[inline(always)]
fn transform8(x: [i16; 8]) -> [i32; 8] {
    let wide = x.map(i32::from);
    let even0 = i32::from(x[0].wrapping_add(x[4])) << 13;
    let even1 = i32::from(x[0].wrapping_sub(x[4])) << 13;
    let even2 = wide[2] * 4433 + wide[6] * (4433 - 15137);
    let even3 = wide[2] * (4433 + 6270) + wide[6] * 4433;
    let e = [even0 + even3, even1 + even2, even1 - even2, even0 - even3];
    let (z3, z4) = (i32::from(x[7].wrapping_add(x[3])), i32::from(x[5].wrapping_add(x[1])));
    let (z3, z4) = (z3 * (9633 - 16069) + z4 * 9633, z3 * 9633 + z4 * (9633 - 3196));
    let o = [
        wide[7] * -7373 + wide[1] * (12299 - 7373) + z4,
        wide[5] * -20995 + wide[3] * (25172 - 20995) + z3,
        wide[5] * (16819 - 20995) + wide[3] * -20995 + z4,
        wide[7] * (2446 - 7373) + wide[1] * -7373 + z3,
    ];
    [
        e[0].wrapping_add(o[0]),
        e[1].wrapping_add(o[1]),
        e[2].wrapping_add(o[2]),
        e[3].wrapping_add(o[3]),
        e[3].wrapping_sub(o[3]),
        e[2].wrapping_sub(o[2]),
        e[1].wrapping_sub(o[1]),
        e[0].wrapping_sub(o[0]),
    ]
}

#[inline(always)]
fn descale(value: i32, bits: u32) -> i16 {
    (value.wrapping_add(1 << (bits - 1)) >> bits).clamp(-32768, 32767) as i16
}

#[inline(always)]
fn sample(value: i16) -> u8 {
    (value.clamp(-128, 127) + 128) as u8
}

/// Writes the 8x8 samples of one block.
pub(super) fn idct_8x8(block: &Block, steps: &[u16; 64], planes: &mut [u8], to: Target) {
    let mut rows = [0i16; 64];
    for column in 0..8 {
        let input = std::array::from_fn(|i| block.0[i * 8 + column].wrapping_mul(steps[i * 8 + column] as i16));
        for (i, value) in transform8(input).into_iter().enumerate() {
            rows[i * 8 + column] = descale(value, 11);
        }
    }
    for (i, row) in rows.chunks_exact(8).enumerate() {
        let out = &mut planes[to.offset + i * to.stride..][..8];
        let values = transform8(std::array::from_fn(|k| row[k]));
        for (sample_out, value) in out.iter_mut().zip(values) {
            *sample_out = sample(descale(value, 18));
        }
    }
}

/// The value of all samples of a block without AC coefficients, at any scale.
#[inline(always)]
pub(super) fn flat_sample(dc: i16, step: u16) -> u8 {
    let value = i32::from(dc.wrapping_mul(step as i16));
    // Both passes of the 8x8 transform, with the saturation to 16 bits between them.
    let first = (value << 2).clamp(-32768, 32767);
    sample(((first + 16) >> 5) as i16)
}

/// Writes a block of `size` x `size` equal samples.
#[inline(always)]
pub(super) fn fill(value: u8, size: usize, planes: &mut [u8], to: Target) {
    for row in 0..size {
        planes[to.offset + row * to.stride..][..size].fill(value);
    }
}

/// The four outputs of the reduced transform, before rounding.
#[inline(always)]
fn transform4(x: [i32; 8]) -> [i32; 4] {
    let even = x[0] << 14;
    let turn = x[2] * 15137 - x[6] * 6270;
    let (outer, inner) = (even.wrapping_add(turn), even.wrapping_sub(turn));
    let near = -x[7] * 1730 + x[5] * 11893 - x[3] * 17799 + x[1] * 8697;
    let far = -x[7] * 4176 - x[5] * 4926 + x[3] * 7373 + x[1] * 20995;
    [outer.wrapping_add(far), inner.wrapping_add(near), inner.wrapping_sub(near), outer.wrapping_sub(far)]
}

#[inline(always)]
fn transform2(x: [i32; 8]) -> [i32; 2] {
    let even = x[0] << 15;
    let odd = -x[7] * 5906 + x[5] * 6967 - x[3] * 10426 + x[1] * 29692;
    [even.wrapping_add(odd), even.wrapping_sub(odd)]
}

/// Writes the 4x4 samples that stand for a block at scale 1/2.
#[inline(always)]
pub(super) fn idct_4x4(block: &Block, steps: &[u16; 64], planes: &mut [u8], to: Target) {
    let mut rows = [0i16; 32];
    for column in [0, 1, 2, 3, 5, 6, 7] {
        let input =
            std::array::from_fn(|i| i32::from(block.0[i * 8 + column].wrapping_mul(steps[i * 8 + column] as i16)));
        for (i, value) in transform4(input).into_iter().enumerate() {
            rows[i * 8 + column] = descale(value, 12);
        }
    }
    for (i, row) in rows.chunks_exact(8).enumerate() {
        let out = &mut planes[to.offset + i * to.stride..][..4];
        let values = transform4(std::array::from_fn(|k| i32::from(row[k])));
        for (sample_out, value) in out.iter_mut().zip(values) {
            *sample_out = sample(descale(value, 19));
        }
    }
}

/// Writes the 2x2 samples that stand for a block at scale 1/4.
#[inline(always)]
pub(super) fn idct_2x2(block: &Block, steps: &[u16; 64], planes: &mut [u8], to: Target) {
    let mut rows = [0i16; 16];
    for column in [0, 1, 3, 5, 7] {
        let input =
            std::array::from_fn(|i| i32::from(block.0[i * 8 + column].wrapping_mul(steps[i * 8 + column] as i16)));
        for (i, value) in transform2(input).into_iter().enumerate() {
            rows[i * 8 + column] = descale(value, 13);
        }
    }
    for (i, row) in rows.chunks_exact(8).enumerate() {
        let out = &mut planes[to.offset + i * to.stride..][..2];
        let values = transform2(std::array::from_fn(|k| i32::from(row[k])));
        for (sample_out, value) in out.iter_mut().zip(values) {
            *sample_out = sample(descale(value, 20));
        }
    }
}
