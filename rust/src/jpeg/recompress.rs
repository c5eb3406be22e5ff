//! An image as it would come back from a baseline JPEG of some quality, without the file: what entropy coding does is undone exactly.
//!
//! ```text
//! RGB -> Y, Cb, Cr -> chroma at half the size -> DCT -> steps -> and back
//! ```
//!
//! The numbers are libjpeg-turbo's with its defaults: 4:2:0, the tables of ITU T.81 annex K, integer DCT, triangle upsampling. Rows and columns that fill up
//! blocks repeat the last one, as there.

use super::forward::{Quantiser, forward};
use super::idct::{Block, Target};
use super::kernels::Kernels;
use super::upsample;

/// Samples on either side of a row of chroma: what upsampling looks at, in whole vectors.
const PAD: usize = 16;

#[rustfmt::skip]
const LUMA: [u16; 64] = [
    16, 11, 10, 16, 24, 40, 51, 61,
    12, 12, 14, 19, 26, 58, 60, 55,
    14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62,
    18, 22, 37, 56, 68, 109, 103, 77,
    24, 35, 55, 64, 81, 104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101,
    72, 92, 95, 98, 112, 100, 103, 99,
];

#[rustfmt::skip]
const CHROMA: [u16; 64] = [
    17, 18, 24, 47, 99, 99, 99, 99,
    18, 21, 26, 66, 99, 99, 99, 99,
    24, 26, 56, 99, 99, 99, 99, 99,
    47, 66, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99,
];

/// An image of one plane (grey) or three (red, green and blue).
pub struct Picture<'a> {
    /// Row by row, and in each plane by plane.
    pub bytes: &'a mut [u8],
    /// 1 or 3.
    pub planes: usize,
    /// Bytes from one plane to the next, a multiple of 32.
    pub pitch: usize,
    /// Columns and rows.
    pub size: (usize, usize),
}

impl Picture<'_> {
    fn plane(&self, y: usize, plane: usize) -> &[u8] {
        &self.bytes[(y * self.planes + plane) * self.pitch..][..self.size.0]
    }

    /// [`recompress`] with some kernels.
    #[inline(always)]
    pub(super) fn recompress_with<K: Kernels>(&mut self, quality: u8) {
        run::<K>(self, quality);
    }
}

/// Gives the image the pixels that a JPEG of the given quality would have, from 1 to 100.
pub fn recompress(picture: &mut Picture<'_>, quality: u8, scalar: bool) {
    #[cfg(target_arch = "x86_64")]
    if !scalar && super::kernels::has_avx2() {
        return super::avx2::recompress(picture, quality);
    }
    let _ = scalar;
    picture.recompress_with::<super::kernels::Scalar>(quality);
}

/// The steps of a table for a quality, as libjpeg scales them.
fn steps(table: &[u16; 64], quality: u8) -> [u16; 64] {
    let quality = u32::from(quality);
    let percent = if quality < 50 { 5_000 / quality } else { 200 - 2 * quality };
    table.map(|step| ((u32::from(step) * percent + 50) / 100).clamp(1, 255) as u16)
}

/// A component's samples in whole blocks.
struct Samples {
    bytes: Vec<u8>,
    /// Of the image.
    size: (usize, usize),
    /// Of the blocks.
    whole: (usize, usize),
    stride: usize,
}

impl Samples {
    fn new(size: (usize, usize)) -> Self {
        let whole = (size.0.next_multiple_of(8), size.1.next_multiple_of(8));
        let stride = whole.0.next_multiple_of(PAD) + 2 * PAD;
        Self { bytes: vec![0; stride * whole.1], size, whole, stride }
    }

    const fn start(&self, y: usize) -> usize {
        y * self.stride + PAD
    }

    fn row_mut(&mut self, y: usize) -> &mut [u8] {
        let start = self.start(y);
        &mut self.bytes[start..][..self.whole.0]
    }

    /// Repeats the last row down to whole blocks.
    fn fill_up(&mut self) {
        let last = self.start(self.size.1 - 1) - PAD;
        for y in self.size.1..self.whole.1 {
            self.bytes.copy_within(last..last + self.stride, y * self.stride);
        }
    }

    /// There and back, two blocks at a time.
    #[inline(always)]
    fn quantise<K: Kernels>(&mut self, by: &Quantiser) {
        let (mut first, mut second) = (Block([0; 64]), Block([0; 64]));
        for top in (0..self.whole.1).step_by(8) {
            for left in (0..self.whole.0).step_by(16) {
                let at = self.start(top) + left;
                let next = if left + 8 < self.whole.0 { at + 8 } else { at };
                forward(&self.bytes, at, self.stride, by, &mut first);
                forward(&self.bytes, next, self.stride, by, &mut second);
                let to = [at, next].map(|offset| Target { offset, stride: self.stride });
                K::idct_pair([&first, &second], [&by.steps; 2], &mut self.bytes, to);
            }
        }
    }

    /// Repeats the image's edges for upsampling.
    fn extend(&mut self) {
        for y in 0..self.size.1 {
            let (start, width) = (self.start(y), self.size.0);
            self.bytes[start - 1] = self.bytes[start];
            self.bytes[start + width] = self.bytes[start + width - 1];
        }
    }

    /// The row of pixels at `y`, twice as wide: whole vectors of it.
    #[inline(always)]
    fn doubled<K: Kernels>(&self, y: usize, out: &mut [u8]) {
        let near = y / 2;
        let far = if y % 2 == 1 { (near + 1).min(self.size.1 - 1) } else { near.saturating_sub(1) };
        let row = |y: usize| &self.bytes[self.start(y) - 1..][..out.len() / 2 + 2];
        if self.size.0 > 2 {
            K::double_both(row(near), row(far), out);
        } else {
            upsample::repeat_row(&row(near)[1..], 2, out); // as libjpeg does with so few
        }
    }
}

#[inline(always)]
fn run<K: Kernels>(picture: &mut Picture<'_>, quality: u8) {
    let (width, height) = picture.size;
    let mut luma = Samples::new(picture.size);
    let by = Quantiser::new(steps(&LUMA, quality));
    if picture.planes == 1 {
        for y in 0..height {
            repeat_last(luma.row_mut(y), picture.plane(y, 0));
        }
        luma.fill_up();
        luma.quantise::<K>(&by);
        for y in 0..height {
            picture.bytes[y * picture.pitch..][..width].copy_from_slice(&luma.row_mut(y)[..width]);
        }
        return;
    }
    let mut chroma = [0, 1].map(|_| Samples::new((width.div_ceil(2), height.div_ceil(2))));
    separate(picture, &mut luma, &mut chroma);
    luma.quantise::<K>(&by);
    let by = Quantiser::new(steps(&CHROMA, quality));
    for chroma in &mut chroma {
        chroma.quantise::<K>(&by);
        chroma.extend();
    }
    let line = 3 * picture.pitch;
    for (y, line) in picture.bytes.chunks_exact_mut(line).enumerate().take(height) {
        let (y_row, chroma_rows) = line.split_at_mut(picture.pitch);
        let (blue, red) = chroma_rows.split_at_mut(picture.pitch);
        y_row[..width].copy_from_slice(&luma.row_mut(y)[..width]);
        chroma[0].doubled::<K>(y, blue);
        chroma[1].doubled::<K>(y, red);
        K::ycc_planes([y_row, blue, red]);
    }
}

/// Fills a row with another one, which may be shorter, and its last sample.
#[inline(always)]
fn repeat_last(row: &mut [u8], from: &[u8]) {
    let (start, rest) = row.split_at_mut(from.len());
    start.copy_from_slice(from);
    rest.fill(from[from.len() - 1]);
}

/// Luma, and chroma at half the size, in whole blocks.
#[inline(always)]
fn separate(picture: &Picture<'_>, luma: &mut Samples, chroma: &mut [Samples; 2]) {
    let (width, height) = picture.size;
    let wide = 2 * chroma[0].whole.0;
    let mut rows = [0; 4].map(|_| vec![0; wide]);
    for y in 0..height {
        let colours = [picture.plane(y, 0), picture.plane(y, 1), picture.plane(y, 2)];
        let out = luma.row_mut(y);
        weighed(colours, [19_595, 38_470, 7_471], 1 << 15, &mut out[..width]);
        let last = out[width - 1];
        out[width..].fill(last);
        for (row, weights) in [[-11_059, -21_709, 32_768], [32_768, -27_439, -5_329]].into_iter().enumerate() {
            let row = &mut rows[row * 2 + y % 2];
            weighed(colours, weights, (128 << 16) + (1 << 15) - 1, &mut row[..width]);
            let last = row[width - 1];
            row[width..].fill(last);
        }
        if y % 2 == 1 || y + 1 == height {
            for (chroma, rows) in chroma.iter_mut().zip(rows.as_chunks::<2>().0) {
                halve([&rows[0], &rows[y % 2]], chroma.row_mut(y / 2));
            }
        }
    }
    luma.fill_up();
    chroma.iter_mut().for_each(Samples::fill_up);
}

/// A weighted sum of red, green and blue, in 65,536ths.
#[inline(always)]
fn weighed([red, green, blue]: [&[u8]; 3], weights: [i32; 3], bias: i32, out: &mut [u8]) {
    for (((out, &red), &green), &blue) in out.iter_mut().zip(red).zip(green).zip(blue) {
        let sum = i32::from(red) * weights[0] + i32::from(green) * weights[1] + i32::from(blue) * weights[2];
        *out = ((sum + bias) >> 16) as u8;
    }
}

/// The means of 2 × 2 samples; halves go down and up by turns.
#[inline(always)]
fn halve([above, below]: [&[u8]; 2], out: &mut [u8]) {
    let (above, below) = (above.as_chunks::<4>().0, below.as_chunks::<4>().0);
    for ((out, above), below) in out.as_chunks_mut::<2>().0.iter_mut().zip(above).zip(below) {
        let first = u16::from(above[0]) + u16::from(above[1]) + u16::from(below[0]) + u16::from(below[1]);
        let second = u16::from(above[2]) + u16::from(above[3]) + u16::from(below[2]) + u16::from(below[3]);
        *out = [((first + 1) >> 2) as u8, ((second + 2) >> 2) as u8];
    }
}
