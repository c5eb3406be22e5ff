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
        let samples = plane[offset + y * stride..].first_chunk::<8>().expect("whole blocks");
        *row = samples.map(|sample| i32::from(sample) - 128);
    }
    let rows = transform::<false>(transposed(&rows));
    let rows = transform::<true>(transposed(&rows));
    for (y, row) in rows.iter().enumerate() {
        for x in 0..8 {
            let (value, place) = (row[x], y * 8 + x);
            let steps = ((value.abs() as f32 + by.half[place]) * by.inverse[place]) as i32;
            block.0[place] = (if value < 0 { -steps } else { steps }) as i16;
        }
    }
}

#[inline(always)]
fn transposed(rows: &Rows) -> Rows {
    let mut out = [[0; 8]; 8];
    for (y, row) in rows.iter().enumerate() {
        for (x, &value) in row.iter().enumerate() {
            out[x][y] = value;
        }
    }
    out
}

/// The transform of eight values, which stand in eight rows, in every column; the second one takes the first one's precision back.
#[inline(always)]
fn transform<const IS_SECOND: bool>(x: Rows) -> Rows {
    let mut out = [[0; 8]; 8];
    let even = |value: i32| if IS_SECOND { (value + 2) >> 2 } else { value << 2 };
    let bits = if IS_SECOND { 15 } else { 11 };
    let descale = |value: i32| (value + (1 << (bits - 1))) >> bits;
    for i in 0..8 {
        let sum = |a: usize| x[a][i] + x[7 - a][i];
        let difference = |a: usize| x[a][i] - x[7 - a][i];
        let (outer, inner) = ([sum(0) + sum(3), sum(0) - sum(3)], [sum(1) + sum(2), sum(1) - sum(2)]);
        out[0][i] = even(outer[0] + inner[0]);
        out[4][i] = even(outer[0] - inner[0]);
        let z = (inner[1] + outer[1]) * 4433;
        out[2][i] = descale(z + outer[1] * 6270);
        out[6][i] = descale(z - inner[1] * 15137);
        let [t4, t5, t6, t7] = [difference(3), difference(2), difference(1), difference(0)];
        let z5 = (t4 + t6 + t5 + t7) * 9633;
        let (z1, z2) = ((t4 + t7) * -7373, (t5 + t6) * -20995);
        let (z3, z4) = ((t4 + t6) * -16069 + z5, (t5 + t7) * -3196 + z5);
        out[7][i] = descale(t4 * 2446 + z1 + z3);
        out[5][i] = descale(t5 * 16819 + z2 + z4);
        out[3][i] = descale(t6 * 25172 + z2 + z3);
        out[1][i] = descale(t7 * 12299 + z1 + z4);
    }
    out
}
