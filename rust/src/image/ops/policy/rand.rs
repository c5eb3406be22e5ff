//! Steps that are all equally likely: RandAugment (Cubuk et al. 2020) and TrivialAugment (Müller and Hutter 2021).

use super::super::super::chain::Chain;
use super::super::warp::Look;
use super::super::{Arguments, Op};
use super::ranges::{USUAL, WIDE, signed};
use super::{Kind, tell, work};
use crate::core::keys::Rng;

/// What is chosen among, in torchvision's order.
const KINDS: [Kind; 14] = [
    Kind::Identity,
    Kind::ShearX,
    Kind::ShearY,
    Kind::TranslateX,
    Kind::TranslateY,
    Kind::Rotate,
    Kind::Brightness,
    Kind::Color,
    Kind::Contrast,
    Kind::Sharpness,
    Kind::Posterize,
    Kind::Solarize,
    Kind::AutoContrast,
    Kind::Equalize,
];

fn kind(rng: &mut Rng) -> Kind {
    KINDS[rng.below(KINDS.len() as u64) as usize]
}

/// Several steps of one strength.
#[derive(Clone, Debug, PartialEq)]
pub struct RandAugment {
    /// How many steps.
    pub num_ops: u32,
    /// The bin of all magnitudes.
    pub magnitude: u32,
    /// How many bins there are, two at least.
    pub bins: u32,
    /// Of what is warped.
    pub look: Look,
}

impl RandAugment {
    pub(in crate::image::ops) fn new(from: &Arguments) -> Result<Self, String> {
        Ok(Self {
            num_ops: from.number("num_ops")? as u32,
            magnitude: from.number("magnitude")? as u32,
            bins: from.number("num_magnitude_bins")? as u32,
            look: Look::new(from)?,
        })
    }
}

impl Op for RandAugment {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        let size = chain.size();
        for place in 0..self.num_ops as usize {
            let kind = kind(rng);
            let magnitude = signed(kind, USUAL.magnitude(kind, self.magnitude, self.bins, size), rng);
            tell(chain, place, kind, magnitude);
            work(kind, magnitude).add(chain, &self.look);
        }
    }
}

/// One step of random strength.
#[derive(Clone, Debug, PartialEq)]
pub struct TrivialAugmentWide {
    /// How many magnitudes there are, two at least.
    pub bins: u32,
    /// Of what is warped.
    pub look: Look,
}

impl TrivialAugmentWide {
    pub(in crate::image::ops) fn new(from: &Arguments) -> Result<Self, String> {
        Ok(Self { bins: from.number("num_magnitude_bins")? as u32, look: Look::new(from)? })
    }
}

impl Op for TrivialAugmentWide {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        let kind = kind(rng);
        let bin = if kind.has_magnitude() { rng.below(u64::from(self.bins)) as u32 } else { 0 };
        let magnitude = signed(kind, WIDE.magnitude(kind, bin, self.bins, chain.size()), rng);
        tell(chain, 0, kind, magnitude);
        work(kind, magnitude).add(chain, &self.look);
    }
}
