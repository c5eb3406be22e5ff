//! Grey.

use std::sync::Arc;

use super::super::chain::Chain;
use super::super::pixels;
use super::super::recolour::Recolour;
use super::super::resample::{Planes, pitch_of};
use super::super::simd::Level;
use super::{Op, chance};
use crate::core::keys::Rng;

/// Grey with the given probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomGrayscale {
    /// The probability.
    pub p: f64,
}

impl Op for RandomGrayscale {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        if chance(self.p, chain, rng) {
            chain.recolour(Arc::new(Grey));
        }
    }
}

/// The luma in all three planes, as Pillow's `convert("L")` rounds it.
#[derive(Debug)]
struct Grey;

impl Recolour for Grey {
    fn row(&self, planes: Planes<'_>, out: &mut [u8], _: Level) {
        if out.len() == pitch_of(planes.width) {
            out[..planes.width].copy_from_slice(planes.plane(0)); // grey already
            return;
        }
        let (luma, others) = out.split_at_mut(out.len() / 3);
        let colours = planes.plane(0).iter().zip(planes.plane(1)).zip(planes.plane(2));
        for (luma, ((&red, &green), &blue)) in luma.iter_mut().zip(colours) {
            *luma = pixels::luma([red, green, blue]);
        }
        others.chunks_exact_mut(luma.len()).for_each(|plane| plane.copy_from_slice(luma));
    }
}
