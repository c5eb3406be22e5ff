//! Ops that draw several changes of colours.

use super::super::super::chain::Chain;
use super::super::nested::permutation;
use super::super::{Arguments, Op};
use super::{Change, brightness, contrast, hue, saturation, shuffled};
use crate::core::keys::Rng;

type Span = (f64, f64);
type ByFactor = fn(f64) -> Change;

/// The changes in the order in which torchvision numbers them.
const CHANGES: [(&str, ByFactor); 4] = [
    ("brightness_factor", brightness),
    ("contrast_factor", contrast),
    ("saturation_factor", saturation),
    ("hue_factor", hue),
];

/// Brightness, contrast, saturation and hue by random factors, in a random order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColorJitter {
    /// The range of each factor; what has none stays.
    pub spans: [Option<Span>; 4],
}

impl ColorJitter {
    pub(in crate::image::ops) fn new(from: &Arguments) -> Result<Self, String> {
        let span = |name: &str| from.0.contains_key(name).then(|| from.pair(name)).transpose();
        Ok(Self { spans: [span("brightness")?, span("contrast")?, span("saturation")?, span("hue")?] })
    }
}

impl Op for ColorJitter {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        let order = permutation(4, rng);
        chain.drew("order", digits(&order));
        let factors = self.spans.map(|span| span.map(|(low, high)| rng.uniform_in(low, high)));
        for ((name, _), factor) in CHANGES.iter().zip(factors) {
            factor.into_iter().for_each(|factor| chain.drew(name, factor));
        }
        for place in order {
            factors[place].into_iter().for_each(|factor| CHANGES[place].1(factor).add(chain));
        }
    }
}

/// The distortions of SSD (Liu et al. 2016): each with a probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomPhotometricDistort {
    /// The range of each factor.
    pub spans: [Span; 4],
    /// The probability of each distortion.
    pub p: f64,
}

impl RandomPhotometricDistort {
    pub(in crate::image::ops) fn new(from: &Arguments) -> Result<Self, String> {
        let spans = [from.pair("brightness")?, from.pair("contrast")?, from.pair("saturation")?, from.pair("hue")?];
        Ok(Self { spans, p: from.number("p")? })
    }
}

impl Op for RandomPhotometricDistort {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        let factors = self.spans.map(|(low, high)| (rng.uniform() < self.p).then(|| rng.uniform_in(low, high)));
        for ((name, _), factor) in CHANGES.iter().zip(factors) {
            factor.into_iter().for_each(|factor| chain.drew(name, factor));
        }
        let contrast_before = rng.uniform() < 0.5;
        chain.drew("contrast_before", u8::from(contrast_before));
        let order = if contrast_before { [0, 1, 2, 3] } else { [0, 2, 3, 1] };
        for place in order {
            factors[place].into_iter().for_each(|factor| CHANGES[place].1(factor).add(chain));
        }
        if rng.uniform() < self.p {
            RandomChannelPermutation.apply(chain, rng);
        }
    }
}

/// The channels in a random order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomChannelPermutation;

impl Op for RandomChannelPermutation {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        let order = permutation(chain.row().mode.channels(), rng);
        chain.drew("permutation", digits(&order));
        shuffled(order).add(chain);
    }
}

/// Places as the digits of a number: 2, 0, 1 is 201.
fn digits(places: &[usize]) -> f64 {
    places.iter().fold(0.0, |number, &place| number * 10.0 + place as f64)
}
