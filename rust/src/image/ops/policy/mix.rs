//! AugMix (Hendrycks et al. 2020): the image, blended with what several rows of steps make of it.

use std::sync::Arc;

use super::super::super::canvas::Canvas;
use super::super::super::chain::{Chain, Whole};
use super::super::super::fault::Fault;
use super::super::super::limits::try_memory;
use super::super::super::simd::Level;
use super::super::super::vectorised::vectorised;
use super::super::warp::Look;
use super::super::{Arguments, Op};
use super::chances::dirichlet;
use super::ranges::{MIXED, signed};
use super::{Kind, tell, work};
use crate::core::keys::Rng;

/// What is chosen among: the last four only with all ops.
const KINDS: [Kind; 13] = [
    Kind::ShearX,
    Kind::ShearY,
    Kind::TranslateX,
    Kind::TranslateY,
    Kind::Rotate,
    Kind::Posterize,
    Kind::Solarize,
    Kind::AutoContrast,
    Kind::Equalize,
    Kind::Brightness,
    Kind::Color,
    Kind::Contrast,
    Kind::Sharpness,
];
const PARTIAL: u64 = 9;
const BINS: u32 = 10;

/// The names of the image's own weight and of those of what is blended with it, and of how many steps each has.
const TOLD: [(&str, &str); 6] = [
    ("weight_1", "depth_1"),
    ("weight_2", "depth_2"),
    ("weight_3", "depth_3"),
    ("weight_4", "depth_4"),
    ("weight_5", "depth_5"),
    ("weight_6", "depth_6"),
];

/// The image and several others made of it, blended.
#[derive(Clone, Debug, PartialEq)]
pub struct AugMix {
    /// How many of ten magnitudes are drawn from.
    pub severity: u32,
    /// How many rows of steps.
    pub width: u32,
    /// How many steps each has; one to three by chance if there is no such number.
    pub depth: Option<u32>,
    /// Of the distributions of weights.
    pub alpha: f64,
    /// Or only those that keep colours as they are.
    pub all_ops: bool,
    /// Of what is warped.
    pub look: Look,
}

impl AugMix {
    pub(in crate::image::ops) fn new(from: &Arguments) -> Result<Self, String> {
        let depth = from.number("chain_depth")?;
        Ok(Self {
            severity: from.number("severity")? as u32,
            width: from.number("mixture_width")? as u32,
            depth: (depth > 0.0).then_some(depth as u32),
            alpha: from.number("alpha")?,
            all_ops: from.switch("all_ops")?,
            look: Look::new(from)?,
        })
    }

    /// A step, and tells it.
    fn step(&self, chain: &mut Chain, place: usize, rng: &mut Rng) -> Option<Arc<dyn Whole>> {
        let kinds = if self.all_ops { KINDS.len() as u64 } else { PARTIAL };
        let kind = KINDS[rng.below(kinds) as usize];
        let bin = if kind.has_magnitude() { rng.below(u64::from(self.severity)) as u32 } else { 0 };
        let magnitude = signed(kind, MIXED.magnitude(kind, bin, BINS, chain.size()), rng);
        tell(chain, place, kind, magnitude);
        work(kind, magnitude).on_canvas(chain.size(), chain.row().mode, &self.look)
    }
}

impl Op for AugMix {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        let of_both = dirichlet(self.alpha, 2, rng);
        let shares = dirichlet(self.alpha, self.width as usize, rng);
        chain.drew("weight", of_both[0] as f32);
        let (mut others, mut place) = (Vec::new(), 0);
        for (number, share) in shares.into_iter().enumerate() {
            let weight = share as f32 * of_both[1] as f32;
            let depth = self.depth.unwrap_or_else(|| 1 + rng.below(3) as u32);
            if let Some((of_weight, of_depth)) = TOLD.get(number) {
                chain.drew(of_weight, weight);
                chain.drew(of_depth, depth);
            }
            let steps = (place..).take(depth as usize).filter_map(|place| self.step(chain, place, rng)).collect();
            place += depth as usize;
            others.push((weight, steps));
        }
        chain.whole(Arc::new(Mixture { own: of_both[0] as f32, others }));
    }
}

/// Weights, in float32 as torchvision has them, and steps.
#[derive(Debug)]
struct Mixture {
    own: f32,
    others: Vec<(f32, Vec<Arc<dyn Whole>>)>,
}

impl Whole for Mixture {
    fn run(&self, canvas: &mut Canvas, spare: &mut Canvas, level: Level) -> Result<(), Fault> {
        let count = canvas.bytes().len();
        try_memory(size_of::<f32>() as u64 * count as u64)?;
        let (mut sums, mut other) = (vec![0.0; count], Canvas::default());
        vectorised!(level, add(&mut sums, canvas.bytes(), self.own));
        for (weight, steps) in &self.others {
            other.copy_from(canvas)?;
            steps.iter().try_for_each(|step| step.run(&mut other, spare, level))?;
            vectorised!(level, add(&mut sums, other.bytes(), *weight));
        }
        vectorised!(level, cut(&sums, canvas.bytes_mut()));
        Ok(())
    }
}

#[inline(always)]
fn add(sums: &mut [f32], numbers: &[u8], weight: f32) {
    sums.iter_mut().zip(numbers).for_each(|(sum, &number)| *sum += f32::from(number) * weight);
}

/// Without what is behind the point.
#[inline(always)]
fn cut(sums: &[f32], out: &mut [u8]) {
    out.iter_mut().zip(sums).for_each(|(out, &sum)| *out = sum as u8);
}
