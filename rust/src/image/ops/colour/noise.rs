//! Noise of a normal distribution.
//!
//! What is added to a byte is a whole number, one of 511 that make a difference. Each has its probability, and one of them is drawn by the alias method
//! (Walker 1974, Vose 1991): half the bits choose a slot, the others one of its two numbers.

use std::sync::Arc;

use super::super::super::canvas::Canvas;
use super::super::super::chain::{Chain, Whole};
use super::super::super::fault::Fault;
use super::super::super::simd::Level;
use super::super::{Arguments, Op};
use crate::core::keys::{Rng, mix};

const SLOTS: usize = 512;
/// The bits of a draw of 32 that choose among a slot's two numbers.
const CHOICE: u32 = 23;

/// To every number a number of its own.
#[derive(Clone, Debug)]
pub struct GaussianNoise {
    slots: Arc<[Slot; SLOTS]>,
    clip: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Below it the first number, from it on the second.
    threshold: u32,
    numbers: [i16; 2],
}

impl GaussianNoise {
    /// Noise of that mean and deviation, of numbers from 0 to 1; results beyond are bounded, or wrap around without `clip`.
    #[must_use]
    pub fn of(mean: f64, sigma: f64, clip: bool) -> Self {
        Self { slots: Arc::new(slots(&probabilities(mean * 255.0, sigma * 255.0, clip))), clip }
    }

    pub(in crate::image::ops) fn new(from: &Arguments) -> Result<Self, String> {
        Ok(Self::of(from.number("mean")?, from.number("sigma")?, from.switch("clip")?))
    }
}

impl Op for GaussianNoise {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        chain.whole(Arc::new(Noise { of: self.clone(), key: rng.bits() }));
    }
}

#[derive(Debug)]
struct Noise {
    of: GaussianNoise,
    key: u64,
}

impl Whole for Noise {
    fn run(&self, canvas: &mut Canvas, _: &mut Canvas, _: Level) -> Result<(), Fault> {
        let (slots, clip) = (&*self.of.slots, self.of.clip);
        for (index, plane) in canvas.each_plane_mut().enumerate() {
            let mut rng = Rng::new(mix(&[self.key, index as u64]));
            if clip {
                add(plane, &mut rng, slots, |sum| sum.clamp(0, 255) as u8);
            } else {
                add(plane, &mut rng, slots, |sum| sum as u8);
            }
        }
        Ok(())
    }
}

/// Adds noise to every number, two of each draw.
fn add(plane: &mut [u8], rng: &mut Rng, slots: &[Slot; SLOTS], byte: impl Fn(i16) -> u8) {
    let (pairs, rest) = plane.as_chunks_mut::<2>();
    for [first, second] in pairs {
        let bits = rng.bits();
        *first = byte(i16::from(*first) + drawn(slots, bits as u32));
        *second = byte(i16::from(*second) + drawn(slots, (bits >> 32) as u32));
    }
    for last in rest {
        *last = byte(i16::from(*last) + drawn(slots, rng.bits() as u32));
    }
}

#[inline(always)]
fn drawn(slots: &[Slot; SLOTS], bits: u32) -> i16 {
    let Slot { threshold, numbers: [first, second] } = slots[(bits >> CHOICE) as usize];
    if bits & ((1 << CHOICE) - 1) < threshold { first } else { second }
}

/// The probability of each number from -255 to 255, which a normal one becomes without what is behind its point.
fn probabilities(mean: f64, sigma: f64, clip: bool) -> [f64; 511] {
    let mut found = [0.0; 511];
    let most = f64::from(i16::MAX);
    let below = |number: f64| normal((number - mean) / sigma);
    let far = if sigma == 0.0 { 0.0 } else { 9.0 * sigma + 1.0 };
    let (first, last) = ((mean - far).clamp(-most, most) as i64, (mean + far).clamp(-most, most) as i64);
    let mut before = 0.0;
    for number in first..=last {
        // What becomes it: up to the next number away from 0, or to 0 itself.
        let end = if number < 0 { number as f64 } else { number as f64 + 1.0 };
        let until = if number == last { 1.0 } else { below(end) };
        let place = if clip { number.clamp(-255, 255) } else { number.rem_euclid(256) };
        found[(place + 255) as usize] += until - before;
        before = until;
    }
    found
}

/// The probability that a standard normal number is below that one (Marsaglia 2004).
fn normal(x: f64) -> f64 {
    if x.abs() > 8.5 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    let (mut sum, mut term, mut next) = (x, x, 3.0);
    while term.abs() > 1e-17 {
        term *= x * x / next;
        sum += term;
        next += 2.0;
    }
    0.5 + sum * (-0.5 * x * x - 0.918_938_533_204_672_7).exp()
}

/// As many slots as there are numbers, each of the same probability, and filled up by the number that has too much.
fn slots(probabilities: &[f64; 511]) -> [Slot; SLOTS] {
    let mut left: Vec<f64> = probabilities.iter().map(|p| p.max(0.0) * SLOTS as f64).collect();
    left.resize(SLOTS, 0.0);
    let (mut poor, mut rich): (Vec<usize>, Vec<usize>) = (0..SLOTS).partition(|&slot| left[slot] < 1.0);
    let mut slots = [Slot::default(); SLOTS];
    let number = |slot: usize| slot as i16 - 255;
    while let (Some(&giver), Some(&slot)) = (rich.last(), poor.last()) {
        poor.pop();
        let threshold = (left[slot] * f64::from(1 << CHOICE)).round() as u32;
        slots[slot] = Slot { threshold, numbers: [number(slot), number(giver)] };
        left[giver] -= 1.0 - left[slot];
        if left[giver] < 1.0 {
            rich.pop();
            poor.push(giver);
        }
    }
    // What is left is 1, but for rounding.
    for slot in rich.into_iter().chain(poor) {
        slots[slot] = Slot { threshold: 1 << CHOICE, numbers: [number(slot); 2] };
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_have_the_probabilities_that_are_asked_for() {
        for (mean, sigma, clip) in [(0.0, 25.5, true), (12.0, 300.0, true), (-3.5, 0.2, false), (200.0, 90.0, false)] {
            let wanted = probabilities(mean, sigma, clip);
            assert!((wanted.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            let mut found = [0.0; SLOTS];
            for slot in slots(&wanted) {
                let first = f64::from(slot.threshold) / f64::from(1 << CHOICE) / SLOTS as f64;
                found[(slot.numbers[0] + 255) as usize] += first;
                found[(slot.numbers[1] + 255) as usize] += 1.0 / SLOTS as f64 - first;
            }
            for (wanted, found) in wanted.iter().zip(found) {
                assert!((wanted - found).abs() < 1e-7, "{wanted} {found}");
            }
        }
    }

    #[test]
    fn no_deviation_is_the_mean_without_what_is_behind_its_point() {
        assert_eq!(probabilities(-3.7, 0.0, true)[252], 1.0);
        assert_eq!(probabilities(4.0, 0.0, true)[259], 1.0);
        assert_eq!(probabilities(0.0, 0.0, false)[255], 1.0);
    }
}
