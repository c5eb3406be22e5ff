//! Changes of colours with their numbers fixed, each by torchvision's name of its function (`adjust_…`, or bare), and the ops that draw such numbers.
//!
//! ```text
//! brightness(1.2).add(&mut chain);            // where it stands in an image's chain
//! saturation(0.5).run(&mut canvas, …);        // on pixels that are held, as a `Whole`
//! ```
//!
//! Numbers are those of torchvision v2 on uint8 tensors, on processors that fuse a multiplication and an addition (its `add(alpha=…)`): `mul_add` rounds as they do.
//! All work on RGB and on grey (saturation and hue leave grey alone), none on alpha, indices or 16 bits.

mod blur;
mod channels;
mod grey;
mod histogram;
mod hue;
mod jitter;
mod jpeg;
mod noise;
mod sharpness;
mod tables;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::super::canvas::Canvas;
use super::super::chain::{Chain, Whole};
use super::super::fault::Fault;
use super::super::recolour::Recolour;
use super::super::resample::{Planes, pitch_of};
use super::super::simd::Level;
use super::{Arguments, Op, chance};
use crate::core::keys::Rng;

pub use blur::{GaussianBlur, blur};
pub use channels::shuffled;
pub use grey::{Grayscale, contrast, grey, saturation};
pub use histogram::{autocontrast, equalize};
pub use hue::hue;
pub use jitter::{ColorJitter, RandomChannelPermutation, RandomPhotometricDistort};
pub use jpeg::{Jpeg, jpeg};
pub use noise::GaussianNoise;
pub use sharpness::sharpness;
pub use tables::{brightness, invert, posterize, solarize};

/// A change of colours.
#[derive(Clone, Debug)]
pub enum Change {
    /// None.
    Nothing,
    /// Row by row, as they stream.
    Rows(Arc<dyn Recolour>),
    /// What depends on more than a pixel.
    Image(Arc<dyn Whole>),
}

impl Change {
    fn rows(colours: impl Recolour + 'static) -> Self {
        Self::Rows(Arc::new(colours))
    }

    fn image(op: impl Whole + 'static) -> Self {
        Self::Image(Arc::new(op))
    }

    /// Puts it at the end of a chain.
    pub fn add(&self, chain: &mut Chain) {
        match self {
            Self::Nothing => {}
            Self::Rows(colours) => chain.recolour(colours.clone()),
            Self::Image(op) => chain.whole(op.clone()),
        }
    }
}

impl Whole for Change {
    fn run(&self, canvas: &mut Canvas, spare: &mut Canvas, level: Level) -> Result<(), Fault> {
        match self {
            Self::Nothing => Ok(()),
            Self::Image(op) => op.run(canvas, spare, level),
            Self::Rows(colours) => {
                spare.reset_as(canvas)?;
                (0..canvas.height()).for_each(|y| colours.row(canvas.row(y), spare.row_mut(y), level));
                std::mem::swap(canvas, spare);
                Ok(())
            }
        }
    }
}

/// A change, with the given probability.
#[derive(Clone, Debug)]
pub struct RandomChange {
    /// The probability.
    pub p: f64,
    /// The change.
    pub change: Change,
}

impl RandomChange {
    pub(super) fn new(from: &Arguments, change: Change) -> Result<Self, String> {
        Ok(Self { p: from.number("p")?, change })
    }
}

impl Op for RandomChange {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        if chance(self.p, chain, rng) {
            self.change.add(chain);
        }
    }
}

/// Does the work on a row's red, green and blue and what becomes of them; grey stays.
#[inline(always)]
fn coloured(planes: Planes<'_>, out: &mut [u8], work: impl FnOnce([&[u8]; 3], [&mut [u8]; 3])) {
    let (width, pitch) = (planes.width, pitch_of(planes.width));
    if out.len() == pitch {
        out[..width].copy_from_slice(planes.plane(0));
        return;
    }
    let (red, others) = out.split_at_mut(pitch);
    let (green, blue) = others.split_at_mut(pitch);
    let colours = [planes.plane(0), planes.plane(1), planes.plane(2)];
    work(colours, [&mut red[..width], &mut green[..width], &mut blue[..width]]);
}

/// A whole number from 0 to 255: in a float of that size, the lowest bits are what stands before the point.
#[inline(always)]
fn low_bits(value: f32) -> u8 {
    (value + 12_582_912.0).to_bits() as u8
}

#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

#[inline(always)]
fn smaller(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}
