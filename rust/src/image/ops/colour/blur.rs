//! A Gaussian blur: columns first, then rows, in float32.

use super::super::super::canvas::Canvas;
use super::super::super::chain::{Chain, Whole};
use super::super::super::fault::Fault;
use super::super::super::simd::Level;
use super::super::super::vectorised::vectorised;
use super::super::{Arguments, Op};
use super::{Change, low_bits};
use crate::core::keys::Rng;

/// Weights below it change nothing that 8 bits hold.
const LEAST_WEIGHT: f64 = 1e-7;

/// A blur of random strength.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GaussianBlur {
    /// Columns and rows of the kernel, both odd.
    pub size: (u32, u32),
    /// Range of the deviation, in pixels.
    pub sigma: (f64, f64),
}

impl GaussianBlur {
    pub(in crate::image::ops) fn new(from: &Arguments) -> Result<Self, String> {
        let (columns, rows) = from.pair("kernel_size")?;
        Ok(Self { size: (columns as u32, rows as u32), sigma: from.pair("sigma")? })
    }
}

impl Op for GaussianBlur {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        let sigma = rng.uniform_in(self.sigma.0, self.sigma.1);
        chain.drew("sigma", sigma);
        blur(self.size, sigma).add(chain);
    }
}

/// Each pixel the weighted mean of those around it, which are mirrored at the edges; every plane by itself.
#[must_use]
pub fn blur(size: (u32, u32), sigma: f64) -> Change {
    Change::image(Blur { columns: weights(size.0, sigma), rows: weights(size.1, sigma) })
}

/// The weights of the middle, and of each step away from it.
fn weights(size: u32, sigma: f64) -> Vec<f32> {
    let weight = |step: u32| (-0.5 * (f64::from(step) / sigma).powi(2)).exp();
    let half: Vec<f64> = (0..=size / 2).map(weight).collect();
    let sum = 2.0 * half.iter().sum::<f64>() - half[0];
    half.iter()
        .map(|weight| weight / sum)
        .take_while(|&weight| weight > LEAST_WEIGHT)
        .map(|weight| weight as f32)
        .collect()
}

#[derive(Debug)]
struct Blur {
    columns: Vec<f32>,
    rows: Vec<f32>,
}

impl Whole for Blur {
    fn run(&self, canvas: &mut Canvas, spare: &mut Canvas, level: Level) -> Result<(), Fault> {
        spare.reset_as(canvas)?;
        let (width, height, planes) = (canvas.width(), canvas.height(), canvas.planes());
        let reach = self.columns.len() - 1;
        let (mut sums, mut row) = (vec![0.0; width + 2 * reach], vec![0.0; width]);
        for (y, plane) in (0..height).flat_map(|y| (0..planes).map(move |plane| (y, plane))) {
            let inner = &mut sums[reach..][..width];
            vectorised!(level, begin(canvas.plane(y, plane), self.rows[0], inner));
            for (step, &weight) in (1..).zip(&self.rows[1..]) {
                let at = |y: isize| canvas.plane(mirrored(y, height), plane);
                vectorised!(level, add_bytes(at(y as isize - step), at(y as isize + step), weight, inner));
            }
            mirror(&mut sums, reach, width);
            vectorised!(level, begin_again(&sums[reach..], self.columns[0], &mut row));
            for (step, &weight) in (1..).zip(&self.columns[1..]) {
                vectorised!(level, add(&sums[reach - step..], &sums[reach + step..], weight, &mut row));
            }
            vectorised!(level, store(&row, spare.plane_mut(y, plane)));
        }
        std::mem::swap(canvas, spare);
        Ok(())
    }
}

/// The place inside of `0..count` that a place beyond an end is mirrored to, the end itself standing once.
fn mirrored(place: isize, count: usize) -> usize {
    let period = 2 * (count as isize - 1);
    if period == 0 {
        return 0;
    }
    let place = place.rem_euclid(period);
    (if place < count as isize { place } else { period - place }) as usize
}

#[inline(always)]
fn begin(row: &[u8], weight: f32, sums: &mut [f32]) {
    sums.iter_mut().zip(row).for_each(|(sum, &number)| *sum = f32::from(number) * weight);
}

/// Adds two rows at the same distance.
#[inline(always)]
fn add_bytes(above: &[u8], below: &[u8], weight: f32, sums: &mut [f32]) {
    for ((sum, &above), &below) in sums.iter_mut().zip(above).zip(below) {
        *sum += f32::from(u16::from(above) + u16::from(below)) * weight;
    }
}

/// Mirrors the numbers on both sides of a row that begins at `reach`.
fn mirror(sums: &mut [f32], reach: usize, width: usize) {
    for step in 1..=reach {
        sums[reach - step] = sums[reach + mirrored(-(step as isize), width)];
        sums[reach + width - 1 + step] = sums[reach + mirrored((width - 1 + step) as isize, width)];
    }
}

#[inline(always)]
fn begin_again(sums: &[f32], weight: f32, row: &mut [f32]) {
    row.iter_mut().zip(sums).for_each(|(to, &sum)| *to = sum * weight);
}

#[inline(always)]
fn add(left: &[f32], right: &[f32], weight: f32, row: &mut [f32]) {
    for ((to, &left), &right) in row.iter_mut().zip(left).zip(right) {
        *to += (left + right) * weight;
    }
}

/// To the nearest whole number, halves to the even one, as the addition in it rounds.
#[inline(always)]
fn store(row: &[f32], out: &mut [u8]) {
    out.iter_mut().zip(row).for_each(|(out, &number)| *out = low_bits(number));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_beyond_the_ends_are_mirrored_as_often_as_it_takes() {
        let places = |count: usize| (-4..7).map(|place| mirrored(place, count)).collect::<Vec<_>>();
        assert_eq!(places(3), [0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2]);
        assert_eq!(places(1), [0; 11]);
    }

    #[test]
    fn halves_become_even() {
        assert_eq!([0.5, 1.5, 2.5, 254.5, 0.49, 255.0].map(low_bits), [0, 2, 2, 254, 0, 255]);
    }
}
