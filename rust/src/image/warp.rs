//! Warps: every pixel of the result is taken from where a map says that it stood.
//!
//! The arithmetic is that of torchvision v2's `_apply_grid_transform` on float32 (PyTorch's `grid_sample`, zeros outside, corners not aligned), number for number.
//! The image is laid out anew for it, four bytes a pixel with a border around, so that a pixel is one load and no place lies outside:
//!
//! ```text
//! . . . . . . .     . border: what nearest neighbours find outside (the fill), or zeros
//! . # # # # . .     # the image, from (1, 1) on
//! . # # # # . .
//! . . . . . . .     two columns and rows at the end: a place on the border has neighbours, too
//! . . . . . . .
//! ```

use super::canvas::Canvas;
use super::fault::Fault;
use super::loops::{Loops, run_vectorised};
use super::simd::Level;

/// Pixels of a row that are worked on at once.
pub const BLOCK: usize = 128;

/// A number for each of them.
pub type Block<T> = [T; BLOCK];

/// Where the pixels of a result stood.
pub trait Map {
    /// Writes where those from column `x` on of row `y` stood, from -1 at the source's left or upper edge to 1 at the other one. What is written of columns that
    /// there are not means nothing.
    fn places(&self, x: usize, y: usize, xs: &mut Block<f32>, ys: &mut Block<f32>);
}

/// What becomes of a place between pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// The nearest pixel.
    Nearest,
    /// Four pixels, weighed.
    Bilinear,
}

/// How pixels are taken from their places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taking {
    /// Between pixels.
    pub sampling: Sampling,
    /// Outside of the image, of nearest pixels: a byte a plane.
    pub border: [u8; 4],
    /// Outside of the image, of weighed ones: blended a second time over what the zeros outside have darkened, as torchvision does it. None leaves it at the zeros.
    pub fill: Option<[f32; 4]>,
}

/// Replaces the image by one of the given size, whose pixels `map` finds.
///
/// # Errors
/// If the process may not have the memory.
pub fn warped(
    map: &impl Map,
    size: (u32, u32),
    taking: &Taking,
    canvas: &mut Canvas,
    spare: &mut Canvas,
    level: Level,
) -> Result<(), Fault> {
    let from = canvas.size();
    let border = if taking.sampling == Sampling::Nearest { taking.border } else { [0; 4] };
    spare.reset(((from.0 + 3) * 4, from.1 + 3), 1)?;
    let Ok(pitch) = u32::try_from(spare.pitch()) else { return Err(too_large(from)) };
    if u32::try_from(spare.bytes().len()).is_err() {
        return Err(too_large(from));
    }
    run_vectorised(level, LayOut { canvas, border, out: spare });
    let planes = canvas.planes();
    canvas.reset(size, planes)?;
    let source = Source { bytes: spare.bytes(), pitch, size: from };
    run_vectorised(level, Gather { map, source, taking, out: canvas });
    Ok(())
}

fn too_large(size: (u32, u32)) -> Fault {
    let found = format!(
        "an image of {} × {} pixels (width × height), of which a warp would hold more than 4 GiB",
        size.0, size.1
    );
    Fault::new(found, "put Resize or a crop before the warp")
}

/// Writes the image with its border, four bytes a pixel.
struct LayOut<'a> {
    canvas: &'a Canvas,
    border: [u8; 4],
    out: &'a mut Canvas,
}

impl Loops for LayOut<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { canvas, border, out } = self;
        let (width, height) = (canvas.width(), canvas.height());
        for y in 0..height + 3 {
            let row = out.plane_mut(y, 0).as_chunks_mut::<4>().0;
            if y == 0 || y > height {
                row.fill(border);
                continue;
            }
            row[0] = border;
            row[1 + width..].fill(border);
            let row = &mut row[1..=width];
            let plane = |plane| canvas.plane(y - 1, plane);
            match canvas.planes() {
                1 => row.iter_mut().zip(plane(0)).for_each(|(to, &a)| *to = [a, 0, 0, 0]),
                2 => row.iter_mut().zip(plane(0).iter().zip(plane(1))).for_each(|(to, (&a, &b))| *to = [a, b, 0, 0]),
                planes => {
                    let last = plane(planes - 1);
                    let others = plane(0).iter().zip(plane(1).iter().zip(plane(2)));
                    row.iter_mut().zip(others.zip(last)).for_each(|(to, ((&a, (&b, &c)), &d))| *to = [a, b, c, d]);
                }
            }
        }
    }
}

/// Takes the pixels of the result from their places.
struct Gather<'a, M> {
    map: &'a M,
    source: Source<'a>,
    taking: &'a Taking,
    out: &'a mut Canvas,
}

impl<M: Map> Loops for Gather<'_, M> {
    #[inline(always)]
    fn run(self) {
        match (self.taking.sampling, self.taking.fill) {
            (Sampling::Nearest, _) => nearest(self.map, self.source, self.out),
            (Sampling::Bilinear, Some(fill)) => bilinear::<true>(self.map, self.source, fill, self.out),
            (Sampling::Bilinear, None) => bilinear::<false>(self.map, self.source, [0.0; 4], self.out),
        }
    }
}

/// The image with its border.
#[derive(Clone, Copy)]
struct Source<'a> {
    bytes: &'a [u8],
    pitch: u32,
    size: (u32, u32),
}

impl Source<'_> {
    /// So many bytes from a pixel's on. Its place lies inside; nothing else is read where it does not.
    #[inline(always)]
    fn at<const BYTES: usize>(self, start: u32) -> [u8; BYTES] {
        let start = start as usize;
        self.bytes.get(start..start + BYTES).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; BYTES])
    }

    /// Where a pixel begins, by its column and row in the image with its border.
    #[inline(always)]
    const fn start(self, column: i32, row: i32) -> u32 {
        row.cast_unsigned().wrapping_mul(self.pitch).wrapping_add(column.cast_unsigned() * 4)
    }
}

/// Adding it rounds to a whole number, halves to the even one, which the last bits of the sum then are.
const ROUNDING: f32 = 12_582_912.0;

/// A whole number above -2²² and below 2²².
#[inline(always)]
const fn whole(number: f32) -> i32 {
    (number + ROUNDING).to_bits().cast_signed() - ROUNDING.to_bits().cast_signed()
}

/// Where a place lies in pixels, on the border at most.
#[inline(always)]
fn in_pixels(place: f32, size: f32) -> f32 {
    let place = (place + 1.0) * (size * 0.5) - 0.5;
    let place = if place > -1.0 { place } else { -1.0 };
    if place < size { place } else { size }
}

/// A column or row of the image with its border; sides that are longer than float32 counts are held by the bounds.
#[inline(always)]
fn with_border(number: i32, size: i32) -> i32 {
    let number = number + 1;
    let number = if number > 0 { number } else { 0 };
    if number < size + 1 { number } else { size + 1 }
}

#[inline(always)]
fn nearest(map: &impl Map, source: Source<'_>, out: &mut Canvas) {
    let size = source.size;
    let (width, height) = (size.0.cast_signed(), size.1.cast_signed());
    let (mut xs, mut ys, mut done) = ([0.0; BLOCK], [0.0; BLOCK], [0_u8; BLOCK]);
    let (mut starts, mut pixels) = ([0_u32; BLOCK], [0_u32; BLOCK]);
    for y in 0..out.height() {
        for x in (0..out.width()).step_by(BLOCK) {
            map.places(x, y, &mut xs, &mut ys);
            for index in 0..BLOCK {
                let column = with_border(whole(in_pixels(xs[index], size.0 as f32)), width);
                let row = with_border(whole(in_pixels(ys[index], size.1 as f32)), height);
                starts[index] = source.start(column, row);
            }
            let count = BLOCK.min(out.width() - x);
            for (pixel, &start) in pixels.iter_mut().zip(&starts[..count]) {
                *pixel = u32::from_le_bytes(source.at(start));
            }
            for plane in 0..out.planes() {
                for index in 0..BLOCK {
                    done[index] = (pixels[index] >> (8 * plane)) as u8;
                }
                out.plane_mut(y, plane)[x..x + count].copy_from_slice(&done[..count]);
            }
        }
    }
}

/// For a block of places: where the upper left one of four pixels begins, what each of them weighs, and what those inside of the image weigh together.
struct Weights {
    starts: Block<u32>,
    corners: [Block<f32>; 4],
    inside: Block<f32>,
}

#[inline(always)]
fn bilinear<const FILLED: bool>(map: &impl Map, source: Source<'_>, fill: [f32; 4], out: &mut Canvas) {
    let (mut xs, mut ys, mut done) = ([0.0; BLOCK], [0.0; BLOCK], [0_u8; BLOCK]);
    let mut weights = Weights { starts: [0; BLOCK], corners: [[0.0; BLOCK]; 4], inside: [0.0; BLOCK] };
    let mut pixels = [[0_u32; BLOCK]; 4];
    for y in 0..out.height() {
        for x in (0..out.width()).step_by(BLOCK) {
            map.places(x, y, &mut xs, &mut ys);
            weigh(&xs, &ys, source, &mut weights);
            let count = BLOCK.min(out.width() - x);
            let [upper_left, upper_right, lower_left, lower_right] = &mut pixels;
            for index in 0..count {
                let start = weights.starts[index];
                let (upper, lower) =
                    (u64::from_le_bytes(source.at(start)), u64::from_le_bytes(source.at(start + source.pitch)));
                (upper_left[index], upper_right[index]) = (upper as u32, (upper >> 32) as u32);
                (lower_left[index], lower_right[index]) = (lower as u32, (lower >> 32) as u32);
            }
            for (plane, &fill) in fill.iter().enumerate().take(out.planes()) {
                blend::<FILLED>(&pixels, &weights, plane, fill, &mut done);
                out.plane_mut(y, plane)[x..x + count].copy_from_slice(&done[..count]);
            }
        }
    }
}

#[inline(always)]
const fn one_if(holds: bool) -> f32 {
    if holds { 1.0 } else { 0.0 }
}

#[inline(always)]
fn weigh(xs: &Block<f32>, ys: &Block<f32>, source: Source<'_>, weights: &mut Weights) {
    let size = source.size;
    let (width, height) = (size.0.cast_signed(), size.1.cast_signed());
    let [upper_left, upper_right, lower_left, lower_right] = &mut weights.corners;
    for index in 0..BLOCK {
        let (x, y) = (in_pixels(xs[index], size.0 as f32), in_pixels(ys[index], size.1 as f32));
        let (left, upper) = (below(x), below(y));
        let (east, south) = (x - left, y - upper);
        let (west, north) = (1.0 - east, 1.0 - south);
        let (column, row) = (with_border(whole(left), width), with_border(whole(upper), height));
        weights.starts[index] = source.start(column, row);
        upper_left[index] = west * north;
        upper_right[index] = east * north;
        lower_left[index] = west * south;
        lower_right[index] = east * south;
        let (left, right) = (one_if(column > 0) * one_if(column <= width), one_if(column < width));
        let (upper, lower) = (one_if(row > 0) * one_if(row <= height), one_if(row < height));
        weights.inside[index] = upper_left[index] * (left * upper)
            + upper_right[index] * (right * upper)
            + lower_left[index] * (left * lower)
            + lower_right[index] * (right * lower);
    }
}

/// The whole number at or below a place.
#[inline(always)]
fn below(place: f32) -> f32 {
    let nearest = (place + ROUNDING) - ROUNDING;
    if nearest > place { nearest - 1.0 } else { nearest }
}

/// One plane of the four pixels as a number.
#[inline(always)]
fn number(pixel: u32, plane: usize) -> f32 {
    (pixel >> (8 * plane) & 255).cast_signed() as f32
}

#[inline(always)]
fn blend<const FILLED: bool>(
    pixels: &[Block<u32>; 4],
    weights: &Weights,
    plane: usize,
    fill: f32,
    out: &mut Block<u8>,
) {
    let [upper_left, upper_right, lower_left, lower_right] = pixels;
    for index in 0..BLOCK {
        let value = number(upper_left[index], plane) * weights.corners[0][index]
            + number(upper_right[index], plane) * weights.corners[1][index]
            + number(lower_left[index], plane) * weights.corners[2][index]
            + number(lower_right[index], plane) * weights.corners[3][index];
        let value = if FILLED { (value - fill) * weights.inside[index] + fill } else { value };
        out[index] = (value + ROUNDING).to_bits() as u8;
    }
}
