//! Turning the hue.

use super::super::super::chain::Recolour;
use super::super::super::resample::{Planes, pitch_of};
use super::super::super::simd::Level;
use super::super::super::vectorised::vectorised;
use super::blocks::{LANES, each_block};
use super::{Change, byte};

/// The hue turned by a part of the circle, through HSV in float32, by Pillow's formula.
#[must_use]
pub fn hue(factor: f64) -> Change {
    Change::rows(Hue(factor as f32))
}

#[derive(Debug)]
struct Hue(f32);

impl Recolour for Hue {
    fn row(&self, planes: Planes<'_>, out: &mut [u8], level: Level) {
        if out.len() == pitch_of(planes.width) {
            out[..planes.width].copy_from_slice(planes.plane(0)); // grey has none
            return;
        }
        let by = self.0;
        vectorised(level, || {
            each_block(planes, out, |before, after| {
                for lane in 0..LANES {
                    let pixel = [before[0][lane], before[1][lane], before[2][lane]];
                    let [red, green, blue] = turned(pixel.map(|number| f32::from(number) * (1.0 / 255.0)), by);
                    (after[0][lane], after[1][lane], after[2][lane]) = (red, green, blue);
                }
            });
        });
    }
}

#[inline(always)]
fn turned([red, green, blue]: [f32; 3], by: f32) -> [u8; 3] {
    let most = if red > green { red } else { green };
    let most = if most > blue { most } else { blue };
    let least = if red < green { red } else { green };
    let least = if least < blue { least } else { blue };
    let (range, is_grey) = (most - least, most == least);
    let saturation = range / if is_grey { 1.0 } else { most };
    let unit = if is_grey { 1.0 } else { range };
    let (r, g, b) = ((most - red) / unit, (most - green) / unit, (most - blue) / unit);
    let sixths = if most == red {
        b - g
    } else if most == green {
        (r + 2.0) - b
    } else {
        (g + 4.0) - r
    };
    let hue = fraction(sixths * (1.0 / 6.0) + 1.0) + by;
    let hue = if hue >= 1.0 { hue - 1.0 } else { hue };
    let hue = if hue < 0.0 { hue + 1.0 } else { hue };
    back(hue, saturation, most)
}

/// Hue, saturation and value to red, green and blue.
#[inline(always)]
fn back(hue: f32, saturation: f32, value: f32) -> [u8; 3] {
    let six = hue * 6.0;
    let sector = six as i32;
    let part = six - sector as f32;
    let sector = if sector == 6 { 0 } else { sector };
    let product = saturation * part;
    let down = unit((1.0 - product) * value);
    let up = unit((product + (1.0 - saturation)) * value);
    let low = unit((1.0 - saturation) * value);
    // Red falls in sector 1 and rises in 4; green is two sectors later, and blue four.
    let of = |full: [i32; 2], falls: i32, rises: i32| {
        let number = if sector == falls { down } else { low };
        let number = if sector == rises { up } else { number };
        let number = if sector == full[0] || sector == full[1] { value } else { number };
        byte(number * 255.999)
    };
    [of([0, 5], 1, 4), of([1, 2], 3, 0), of([3, 4], 5, 2)]
}

#[inline(always)]
fn unit(value: f32) -> f32 {
    let value = if value > 0.0 { value } else { 0.0 };
    if value < 1.0 { value } else { 1.0 }
}

/// What is behind the point of a number from 0 on.
#[inline(always)]
fn fraction(value: f32) -> f32 {
    value - value as i32 as f32
}
