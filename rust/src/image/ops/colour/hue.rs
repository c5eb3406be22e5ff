//! Turning the hue.

use super::super::super::recolour::Recolour;
use super::super::super::resample::Planes;
use super::super::super::simd::Level;
use super::super::super::vectorised::{byte, vectorised};
use super::{Change, coloured, larger, smaller};

/// The hue turned by a part of the circle, through HSV in float32, by Pillow's formula.
#[must_use]
pub fn hue(factor: f64) -> Change {
    Change::rows(Hue(factor as f32))
}

#[derive(Debug)]
struct Hue(f32);

impl Recolour for Hue {
    fn row(&self, planes: Planes<'_>, out: &mut [u8], level: Level) {
        coloured(planes, out, |[red, green, blue], [to_red, to_green, to_blue]| {
            vectorised!(level, turn(red, green, blue, to_red, to_green, to_blue, self.0));
        });
    }
}

#[inline(always)]
fn turn(red: &[u8], green: &[u8], blue: &[u8], to_red: &mut [u8], to_green: &mut [u8], to_blue: &mut [u8], by: f32) {
    let before = red.iter().zip(green).zip(blue);
    let after = to_red.iter_mut().zip(to_green).zip(to_blue);
    for (((&red, &green), &blue), ((to_red, to_green), to_blue)) in before.zip(after) {
        let (hue, saturation, value) = hsv(share(red), share(green), share(blue));
        let turned = hue + by;
        let turned = if turned >= 1.0 { turned - 1.0 } else { turned };
        let turned = if turned < 0.0 { turned + 1.0 } else { turned };
        (*to_red, *to_green, *to_blue) = rgb(turned, saturation, value);
    }
}

#[inline(always)]
fn share(number: u8) -> f32 {
    f32::from(number) * (1.0 / 255.0)
}

/// Hue, saturation and value.
#[inline(always)]
fn hsv(red: f32, green: f32, blue: f32) -> (f32, f32, f32) {
    let (most, least) = (larger(larger(red, green), blue), smaller(smaller(red, green), blue));
    let (range, is_grey) = (most - least, most == least);
    let saturation = range / if is_grey { 1.0 } else { most };
    let unit = if is_grey { 1.0 } else { range };
    let (r, g, b) = ((most - red) / unit, (most - green) / unit, (most - blue) / unit);
    let sixths = if most == green { (r + 2.0) - b } else { (g + 4.0) - r };
    let sixths = if most == red { b - g } else { sixths };
    let hue = sixths * (1.0 / 6.0) + 1.0;
    (hue - hue.floor(), saturation, most)
}

#[inline(always)]
fn rgb(hue: f32, saturation: f32, value: f32) -> (u8, u8, u8) {
    let six = hue * 6.0;
    let sector = six.floor();
    let part = six - sector;
    let sector = if sector == 6.0 { 0.0 } else { sector };
    let product = saturation * part;
    let down = smaller(larger((1.0 - product) * value, 0.0), 1.0);
    let up = smaller(larger((product + (1.0 - saturation)) * value, 0.0), 1.0);
    let low = smaller(larger((1.0 - saturation) * value, 0.0), 1.0);
    // Red is full in sectors 0 and 5, falls in 1 and rises in 4; green is two sectors later, and blue four.
    let red = of(sector, value, down, up, low);
    let green = of(if sector < 2.0 { sector + 4.0 } else { sector - 2.0 }, value, down, up, low);
    let blue = of(if sector < 4.0 { sector + 2.0 } else { sector - 4.0 }, value, down, up, low);
    (byte(red * 255.999), byte(green * 255.999), byte(blue * 255.999))
}

/// A colour's number where red's sector is that one.
#[inline(always)]
fn of(sector: f32, full: f32, down: f32, up: f32, low: f32) -> f32 {
    let number = if sector == 1.0 { down } else { full };
    let number = if sector == 4.0 { up } else { number };
    if sector == 2.0 || sector == 3.0 { low } else { number }
}
