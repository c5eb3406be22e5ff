//! Forward DCT and quantisation in plain loops over eight columns or rows at once, equal to libjpeg-turbo's accurate integer transform ("islow").
//!
//! Method as in `idct`, with results eight times as large, which the quantisation takes out.

use super::idct::Block;

/// A block's rows.
type Rows = [[i32; 8]; 8];

/// How coefficients are quantised, in natural order.
pub(super) struct Quantiser {
    /// As the decoder multiplies.
    pub steps: [u16; 64],
    half: [f32; 64],
    inverse: [f32; 64],
}

impl Quantiser {
    pub fn new(steps: [u16; 64]) -> Self {
        // A half more than libjpeg's (|coefficient| + step / 2) / step: never a whole number of steps, so that no rounding of floats matters.
        let half = steps.map(|step| f32::from(step) * 4.0 + 0.5);
        Self { steps, half, inverse: steps.map(|step| 1.0 / (f32::from(step) * 8.0)) }
    }
}

/// The quantised coefficients of the 8 × 8 samples from `offset` on.
#[inline(always)]
pub(super) fn forward(plane: &[u8], offset: usize, stride: usize, by: &Quantiser, block: &mut Block) {
    let mut rows: Rows = [[0; 8]; 8];
    for (y, row) in rows.iter_mut().enumerate() {
        let samples = &plane[offset + y * stride..][..8];
        for (value, &sample) in row.iter_mut().zip(samples) {
            *value = i32::from(sample) - 128;
        }
    }
    let rows = transform::<false>(transposed(&rows));
    let rows = transform::<true>(transposed(&rows));
    let rows = rows.as_flattened();
    for (place, (&value, out)) in rows.iter().zip(&mut block.0).enumerate() {
        let steps = (value.abs() as f32 + by.half[place]) * by.inverse[place];
        // In a float of that size, the lowest bits are what stands before the point.
        let steps = (steps.floor() + 12_582_912.0).to_bits() as i16;
        *out = if value < 0 { -steps } else { steps };
    }
}

#[inline(always)]
fn transposed(rows: &Rows) -> Rows {
    let mut out = [[0; 8]; 8];
    for y in 0..8 {
        for x in 0..8 {
            out[x][y] = rows[y][x];
        }
    }
    out
}

/// The transform of eight values, which stand in eight rows, in every column; the second one takes the first one's precision back.
#[inline(always)]
fn transform<const IS_SECOND: bool>(x: Rows) -> Rows {
    let mut out = [[0; 8]; 8];
    let bits = if IS_SECOND { 15 } else { 11 };
    for i in 0..8 {
        let (s0, s1, s2, s3) = (x[0][i] + x[7][i], x[1][i] + x[6][i], x[2][i] + x[5][i], x[3][i] + x[4][i]);
        let (t4, t5, t6, t7) = (x[3][i] - x[4][i], x[2][i] - x[5][i], x[1][i] - x[6][i], x[0][i] - x[7][i]);
        let (outer, inner) = (s0 + s3, s1 + s2);
        let (even, odd) = (outer + inner, outer - inner);
        (out[0][i], out[4][i]) = if IS_SECOND { ((even + 2) >> 2, (odd + 2) >> 2) } else { (even << 2, odd << 2) };
        let (outer, inner) = (s0 - s3, s1 - s2);
        let z = (inner + outer) * 4433;
        out[2][i] = descale(z + outer * 6270, bits);
        out[6][i] = descale(z - inner * 15137, bits);
        let z5 = (t4 + t6 + t5 + t7) * 9633;
        let (z1, z2) = ((t4 + t7) * -7373, (t5 + t6) * -20995);
        let (z3, z4) = ((t4 + t6) * -16069 + z5, (t5 + t7) * -3196 + z5);
        out[7][i] = descale(t4 * 2446 + z1 + z3, bits);
        out[5][i] = descale(t5 * 16819 + z2 + z4, bits);
        out[3][i] = descale(t6 * 25172 + z2 + z3, bits);
        out[1][i] = descale(t7 * 12299 + z1 + z4, bits);
    }
    out
}

#[inline(always)]
const fn descale(value: i32, bits: u32) -> i32 {
    (value + (1 << (bits - 1))) >> bits
}
