//! Random perspectives and elastic warps.

use std::sync::Arc;

use super::super::canvas::Canvas;
use super::super::chain::{Chain, Whole};
use super::super::elastic::Elastic;
use super::super::fault::Fault;
use super::super::moves::Move;
use super::super::perspective::{PerspectiveMap, coefficients};
use super::super::simd::Level;
use super::super::warp::{Taking, warped};
use super::warp::{Look, Warp};
use super::{Arguments, Op, chance};
use crate::core::keys::Rng;

/// The image as seen from aside: its corners move inwards.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomPerspective {
    /// How far, at most: as a share of half a side.
    pub distortion_scale: f64,
    /// The probability.
    pub p: f64,
    /// Of the result.
    pub look: Look,
}

impl RandomPerspective {
    pub(super) fn new(from: &Arguments) -> Result<Self, String> {
        Ok(Self { distortion_scale: from.number("distortion_scale")?, p: from.number("p")?, look: Look::new(from)? })
    }
}

impl Op for RandomPerspective {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        if !chance(self.p, chain, rng) {
            return;
        }
        let (width, height) = chain.size();
        let bound = |side: u32| (self.distortion_scale * f64::from(side / 2)) as u32 + 1;
        let mut draw = |side: u32, at_end: bool| {
            let first = if at_end { side - bound(side).min(side) } else { 0 };
            f64::from(first) + rng.below(u64::from(bound(side))) as f64
        };
        let ends = [(false, false), (true, false), (true, true), (false, true)]
            .map(|(right, bottom)| (draw(width, right), draw(height, bottom)));
        let (right, bottom) = (f64::from(width - 1), f64::from(height - 1));
        let starts = [(0.0, 0.0), (right, 0.0), (right, bottom), (0.0, bottom)];
        // Of an image of one row or column the corners fall together: it stays.
        let Some(numbers) = coefficients(starts, ends) else { return };
        for (name, number) in ["a", "b", "c", "d", "e", "f", "g", "h"].into_iter().zip(numbers) {
            chain.drew(name, number);
        }
        perspective(chain, numbers, &self.look);
    }
}

/// A perspective warp as torchvision's `perspective`, by its eight coefficients.
pub fn perspective(chain: &mut Chain, numbers: [f32; 8], look: &Look) {
    let (size, taking) = (chain.size(), look.taking(chain.row().mode));
    let warp = Warp { map: PerspectiveMap::new(numbers, size), size, taking };
    chain.move_whole(Move::Perspective(numbers), Arc::new(warp));
}

/// The image as seen through water.
#[derive(Clone, Debug, PartialEq)]
pub struct ElasticTransform {
    /// How far pixels move along x and y.
    pub alpha: (f64, f64),
    /// How smoothly.
    pub sigma: (f64, f64),
    /// Of the result.
    pub look: Look,
}

impl ElasticTransform {
    pub(super) fn new(from: &Arguments) -> Result<Self, String> {
        Ok(Self { alpha: from.pair("alpha")?, sigma: from.pair("sigma")?, look: Look::new(from)? })
    }
}

impl Op for ElasticTransform {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        elastic(chain, Elastic { key: rng.bits(), alpha: self.alpha, sigma: self.sigma }, &self.look);
    }
}

/// A warp by a field of displacements.
pub fn elastic(chain: &mut Chain, by: Elastic, look: &Look) {
    let taking = look.taking(chain.row().mode);
    chain.move_whole(Move::Elastic(by), Arc::new(ElasticWarp { by, taking }));
}

#[derive(Clone, Copy, Debug)]
struct ElasticWarp {
    by: Elastic,
    taking: Taking,
}

impl Whole for ElasticWarp {
    fn run(&self, canvas: &mut Canvas, spare: &mut Canvas, level: Level) -> Result<(), Fault> {
        let size = canvas.size();
        warped(&self.by.field(size, level)?, size, &self.taking, canvas, spare, level)
    }
}
