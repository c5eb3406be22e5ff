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
use super::simd::Level;
use super::vectorised::vectorised;

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
    vectorised!(level, lay_out(canvas, border, spare));
    let planes = canvas.planes();
    canvas.reset(size, planes)?;
    let source = Source { bytes: spare.bytes(), pitch: spare.pitch(), size: from };
    vectorised!(
        level,
        match taking.sampling {
            Sampling::Nearest => nearest(map, source, canvas),
            Sampling::Bilinear => bilinear(map, source, taking.fill, canvas),
        }
    );
    Ok(())
}

/// Writes the image with its border, four bytes a pixel.
#[inline(always)]
fn lay_out(canvas: &Canvas, border: [u8; 4], out: &mut Canvas) {
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

/// The image with its border.
#[derive(Clone, Copy)]
struct Source<'a> {
    bytes: &'a [u8],
    pitch: usize,
    size: (u32, u32),
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

/// A column or row of the image with its border; a bound that larger images than float32 counts do not pass.
#[inline(always)]
fn bounded(number: i32, size: u32) -> u32 {
    (number + 1).cast_unsigned().min(size + 1)
}

#[inline(always)]
fn nearest(map: &impl Map, source: Source<'_>, out: &mut Canvas) {
    let Source { bytes, pitch, size } = source;
    let sides = (size.0 as f32, size.1 as f32);
    let (mut xs, mut ys) = ([0.0; BLOCK], [0.0; BLOCK]);
    let (mut starts, mut pixels) = ([0_usize; BLOCK], [0_u32; BLOCK]);
    for y in 0..out.height() {
        for x in (0..out.width()).step_by(BLOCK) {
            map.places(x, y, &mut xs, &mut ys);
            for ((start, &x), &y) in starts.iter_mut().zip(&xs).zip(&ys) {
                let column = bounded(whole(in_pixels(x, sides.0)), size.0);
                let row = bounded(whole(in_pixels(y, sides.1)), size.1);
                *start = row as usize * pitch + column as usize * 4;
            }
            let count = BLOCK.min(out.width() - x);
            for (pixel, &start) in pixels.iter_mut().zip(&starts[..count]) {
                *pixel = bytes[start..].first_chunk().map_or(0, |pixel| u32::from_le_bytes(*pixel));
            }
            for plane in 0..out.planes() {
                let to = &mut out.plane_mut(y, plane)[x..x + count];
                to.iter_mut().zip(&pixels).for_each(|(to, pixel)| *to = (pixel >> (8 * plane)) as u8);
            }
        }
    }
}

/// The weights of four pixels, for a block of places; then what each weighs where it lies inside of the image.
struct Weights {
    corners: [Block<f32>; 4],
    inside: Block<f32>,
}

#[inline(always)]
fn bilinear(map: &impl Map, source: Source<'_>, fill: Option<[f32; 4]>, out: &mut Canvas) {
    let Source { bytes, pitch, size } = source;
    let (mut xs, mut ys) = ([0.0; BLOCK], [0.0; BLOCK]);
    let mut weights = Weights { corners: [[0.0; BLOCK]; 4], inside: [0.0; BLOCK] };
    let (mut starts, mut pixels) = ([0_usize; BLOCK], [[0_u32; BLOCK]; 4]);
    for y in 0..out.height() {
        for x in (0..out.width()).step_by(BLOCK) {
            map.places(x, y, &mut xs, &mut ys);
            weigh(&xs, &ys, size, pitch, &mut starts, &mut weights);
            let count = BLOCK.min(out.width() - x);
            for (index, &start) in starts[..count].iter().enumerate() {
                for (row, start) in [start, start + pitch].into_iter().enumerate() {
                    let both = bytes[start..].first_chunk().map_or(0, |pixels| u64::from_le_bytes(*pixels));
                    pixels[2 * row][index] = both as u32;
                    pixels[2 * row + 1][index] = (both >> 32) as u32;
                }
            }
            for plane in 0..out.planes() {
                let to = &mut out.plane_mut(y, plane)[x..x + count];
                match fill {
                    None => blend(&pixels, &weights, plane, |value, _| value, to),
                    Some(fill) => {
                        let fill = fill[plane];
                        blend(&pixels, &weights, plane, |value, inside| (value - fill) * inside + fill, to);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn weigh(
    xs: &Block<f32>,
    ys: &Block<f32>,
    size: (u32, u32),
    pitch: usize,
    starts: &mut Block<usize>,
    weights: &mut Weights,
) {
    let sides = (size.0 as f32, size.1 as f32);
    let [upper_left, upper_right, lower_left, lower_right] = &mut weights.corners;
    for index in 0..BLOCK {
        let (x, y) = (in_pixels(xs[index], sides.0), in_pixels(ys[index], sides.1));
        let (left, upper) = (below(x), below(y));
        let (east, south) = (x - left, y - upper);
        let (west, north) = (1.0 - east, 1.0 - south);
        let (column, row) = (bounded(whole(left), size.0), bounded(whole(upper), size.1));
        starts[index] = row as usize * pitch + column as usize * 4;
        let corners = [west * north, east * north, west * south, east * south];
        upper_left[index] = corners[0];
        upper_right[index] = corners[1];
        lower_left[index] = corners[2];
        lower_right[index] = corners[3];
        let columns = [column != 0 && column <= size.0, column < size.0];
        let rows = [row != 0 && row <= size.1, row < size.1];
        let if_inside = |corner: usize| if columns[corner % 2] & rows[corner / 2] { corners[corner] } else { 0.0 };
        weights.inside[index] = if_inside(0) + if_inside(1) + if_inside(2) + if_inside(3);
    }
}

/// The whole number at or below a place.
#[inline(always)]
fn below(place: f32) -> f32 {
    let nearest = (place + ROUNDING) - ROUNDING;
    if nearest > place { nearest - 1.0 } else { nearest }
}

#[inline(always)]
fn blend(pixels: &[Block<u32>; 4], weights: &Weights, plane: usize, filled: impl Fn(f32, f32) -> f32, out: &mut [u8]) {
    for (index, to) in out.iter_mut().enumerate().take(BLOCK) {
        let value =
            |corner: usize| (pixels[corner][index] >> (8 * plane) & 255) as f32 * weights.corners[corner][index];
        let blended = filled(value(0) + value(1) + value(2) + value(3), weights.inside[index]);
        *to = (blended + ROUNDING).to_bits() as u8;
    }
}
