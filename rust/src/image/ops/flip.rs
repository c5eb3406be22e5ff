//! Flips.

use super::super::chain::Chain;
use super::{Op, chance};
use crate::core::keys::Rng;

/// Left and right exchanged with the given probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomHorizontalFlip {
    /// The probability.
    pub p: f64,
}

impl Op for RandomHorizontalFlip {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        if chance(self.p, chain, rng) {
            chain.flip_horizontal();
        }
    }
}

/// Top and bottom exchanged with the given probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomVerticalFlip {
    /// The probability.
    pub p: f64,
}

impl Op for RandomVerticalFlip {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        if chance(self.p, chain, rng) {
            chain.flip_vertical();
        }
    }
}
