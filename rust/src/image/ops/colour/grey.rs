//! Blends with grey: every pixel's own (saturation), or the mean of all (contrast).

use super::super::super::canvas::Canvas;
use super::super::super::chain::{Chain, Whole};
use super::super::super::fault::Fault;
use super::super::super::mode::Mode;
use super::super::super::recolour::{Recolour, Tables};
use super::super::super::resample::Planes;
use super::super::super::simd::Level;
use super::super::super::vectorised::{byte, vectorised};
use super::super::Op;
use super::{Change, coloured};
use crate::core::keys::Rng;

/// The grey of a pixel, 0.2989 red + 0.587 green + 0.114 blue without what is behind the point: white becomes 254, since the weights are not quite 1.
///
/// Its multiples of 1 / 10,000 are further apart than the error of float32, which the last number is above.
#[inline(always)]
fn grey_of([red, green, blue]: [u8; 3]) -> u8 {
    let sum = f32::from(red) * 0.2989 + f32::from(green) * 0.587 + f32::from(blue) * 0.114;
    byte(sum + 5e-5)
}

/// Grey, in as many equal planes as there are.
#[must_use]
pub fn grey() -> Change {
    Change::rows(Grey)
}

/// More or less colourful: a blend with each pixel's grey.
#[must_use]
pub fn saturation(factor: f64) -> Change {
    Change::rows(Saturation(factor))
}

/// More or less contrast: a blend with the mean of the greys.
#[must_use]
pub fn contrast(factor: f64) -> Change {
    Change::image(Contrast(factor))
}

#[derive(Debug)]
struct Grey;

impl Recolour for Grey {
    fn row(&self, planes: Planes<'_>, out: &mut [u8], level: Level) {
        coloured(planes, out, |[red, green, blue], [first, second, third]| {
            vectorised!(level, greys(red, green, blue, first));
            second.copy_from_slice(first);
            third.copy_from_slice(first);
        });
    }
}

#[inline(always)]
fn greys(red: &[u8], green: &[u8], blue: &[u8], out: &mut [u8]) {
    for (((&red, &green), &blue), out) in red.iter().zip(green).zip(blue).zip(out) {
        *out = grey_of([red, green, blue]);
    }
}

#[derive(Debug)]
struct Saturation(f64);

impl Recolour for Saturation {
    fn row(&self, planes: Planes<'_>, out: &mut [u8], level: Level) {
        let shares = (self.0 as f32, (1.0 - self.0) as f32);
        coloured(planes, out, |[red, green, blue], [to_red, to_green, to_blue]| {
            vectorised!(level, blend(red, green, blue, to_red, to_green, to_blue, shares));
        });
    }
}

/// The shares of each number and of its pixel's grey.
#[inline(always)]
fn blend(
    red: &[u8],
    green: &[u8],
    blue: &[u8],
    to_red: &mut [u8],
    to_green: &mut [u8],
    to_blue: &mut [u8],
    (own, rest): (f32, f32),
) {
    let before = red.iter().zip(green).zip(blue);
    let after = to_red.iter_mut().zip(to_green).zip(to_blue);
    for (((&red, &green), &blue), ((to_red, to_green), to_blue)) in before.zip(after) {
        let grey = f32::from(grey_of([red, green, blue]));
        *to_red = byte(grey.mul_add(rest, f32::from(red) * own));
        *to_green = byte(grey.mul_add(rest, f32::from(green) * own));
        *to_blue = byte(grey.mul_add(rest, f32::from(blue) * own));
    }
}

#[derive(Debug)]
struct Contrast(f64);

impl Whole for Contrast {
    fn run(&self, canvas: &mut Canvas, spare: &mut Canvas, level: Level) -> Result<(), Fault> {
        let sum: u64 = (0..canvas.height()).map(|y| sum_of_greys(canvas.row(y), canvas.planes(), level)).sum();
        let mean = sum as f32 / (canvas.width() * canvas.height()) as f32;
        let (factor, rest) = (self.0 as f32, (1.0 - self.0) as f32);
        let blended = |number: u8| byte(mean.mul_add(rest, f32::from(number) * factor));
        Change::rows(Tables::from_fn(blended)).run(canvas, spare, level)
    }
}

/// The sum of a row's greys.
fn sum_of_greys(planes: Planes<'_>, channels: usize, level: Level) -> u64 {
    if channels == 1 {
        return planes.plane(0).iter().map(|&number| u64::from(number)).sum();
    }
    let colours = [planes.plane(0), planes.plane(1), planes.plane(2)];
    // A row has fewer pixels than would overflow 32 bits.
    u64::from(vectorised!(level, sum_of(colours)))
}

#[inline(always)]
fn sum_of([red, green, blue]: [&[u8]; 3]) -> u32 {
    let mut sum = 0;
    for ((&red, &green), &blue) in red.iter().zip(green).zip(blue) {
        sum += u32::from(grey_of([red, green, blue]));
    }
    sum
}

/// Grey, in one plane or in three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grayscale {
    /// Planes of the result.
    pub channels: usize,
}

impl Op for Grayscale {
    fn apply(&self, chain: &mut Chain, _: &mut Rng) {
        let before = chain.row().mode;
        let after = if self.channels == 1 { Mode::L } else { Mode::Rgb };
        if before == Mode::Rgb {
            grey().add(chain);
        }
        if before != after {
            Change::image(Repeated(after)).add(chain);
        }
    }
}

/// The first plane, as often as a mode has planes.
#[derive(Debug)]
struct Repeated(Mode);

impl Whole for Repeated {
    fn mode(&self, _: Mode) -> Mode {
        self.0
    }

    fn run(&self, canvas: &mut Canvas, spare: &mut Canvas, _: Level) -> Result<(), Fault> {
        spare.reset(canvas.size(), self.0.bytes())?;
        for y in 0..canvas.height() {
            let from = &canvas.row(y).bytes[..canvas.pitch()];
            spare.row_mut(y).chunks_exact_mut(from.len()).for_each(|plane| plane.copy_from_slice(from));
        }
        std::mem::swap(canvas, spare);
        Ok(())
    }
}
