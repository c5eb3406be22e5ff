//! timm's RandAugment (`timm/data/auto_augment.py`): its steps and its arithmetic of levels, with the pixels that torchvision makes of tensors.

use std::sync::Arc;

use super::super::super::chain::Chain;
use super::super::super::recolour::Tables;
use super::super::colour::Change;
use super::super::warp::Look;
use super::super::{Arguments, Op};
use super::chances::normal;
use super::{Kind, Work, tell, work};
use crate::core::keys::Rng;

/// `_RAND_TRANSFORMS`; the increasing ones are the same kinds.
const KINDS: [Kind; 15] = [
    Kind::AutoContrast,
    Kind::Equalize,
    Kind::Invert,
    Kind::Rotate,
    Kind::Posterize,
    Kind::Solarize,
    Kind::SolarizeAdd,
    Kind::Color,
    Kind::Contrast,
    Kind::Brightness,
    Kind::Sharpness,
    Kind::ShearX,
    Kind::ShearY,
    Kind::TranslateX,
    Kind::TranslateY,
];

/// The level that is full strength (`_LEVEL_DENOM`).
const FULL: f64 = 10.0;

/// Several steps of random strength, each with a probability.
#[derive(Clone, Debug, PartialEq)]
pub struct TimmAugment {
    /// The mean level.
    pub magnitude: f64,
    /// Its deviation; infinite: levels from 0 to the magnitude are equally likely.
    pub deviation: f64,
    /// The greatest level.
    pub most: f64,
    /// How many steps.
    pub layers: u32,
    /// The probability of each.
    pub p: f64,
    /// Whether all steps are stronger at greater levels.
    pub is_increasing: bool,
    /// Of what is warped.
    pub look: Look,
}

impl TimmAugment {
    pub(in crate::image::ops) fn new(from: &Arguments) -> Result<Self, String> {
        Ok(Self {
            magnitude: from.number("magnitude")?,
            deviation: from.number("deviation")?,
            most: from.number("most")?,
            layers: from.number("layers")? as u32,
            p: from.number("p")?,
            is_increasing: from.switch("is_increasing")?,
            look: Look::new(from)?,
        })
    }

    fn level(&self, rng: &mut Rng) -> f64 {
        let level = if self.deviation == f64::INFINITY {
            rng.uniform_in(0.0, self.magnitude)
        } else if self.deviation > 0.0 {
            self.magnitude + self.deviation * normal(rng)
        } else {
            self.magnitude
        };
        level.clamp(0.0, self.most)
    }

    /// The number that timm makes of a level (`LEVEL_TO_ARG`).
    fn argument(&self, kind: Kind, level: f64, rng: &mut Rng) -> f64 {
        let share = level / FULL;
        let falling = |most: f64, value: f64| if self.is_increasing { most - value } else { value };
        let mut by_turns = |value: f64| if rng.uniform() > 0.5 { -value } else { value };
        match kind {
            Kind::Rotate => by_turns(share * 30.0),
            Kind::Posterize => falling(4.0, (share * 4.0).trunc()),
            Kind::Solarize => falling(256.0, (share * 256.0).trunc().min(256.0)),
            Kind::SolarizeAdd => (share * 110.0).trunc().min(128.0),
            Kind::Color | Kind::Contrast | Kind::Brightness | Kind::Sharpness if self.is_increasing => {
                (1.0 + by_turns(share * 0.9)).max(0.1)
            }
            Kind::Color | Kind::Contrast | Kind::Brightness | Kind::Sharpness => share * 1.8 + 0.1,
            Kind::ShearX | Kind::ShearY => by_turns(share * 0.3),
            Kind::TranslateX | Kind::TranslateY => by_turns(share * 0.45),
            _ => 0.0,
        }
    }
}

impl Op for TimmAugment {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        for place in 0..self.layers as usize {
            let kind = KINDS[rng.below(KINDS.len() as u64) as usize];
            if self.p < 1.0 && rng.uniform() > self.p {
                continue;
            }
            let level = self.level(rng);
            let argument = self.argument(kind, level, rng);
            tell(chain, place, kind, argument);
            timm_work(kind, argument, chain.size()).add(chain, &self.look);
        }
    }
}

/// What timm does with an argument; it says from where pixels come, so that positive translations go to the left and upwards.
fn timm_work(kind: Kind, argument: f64, size: (u32, u32)) -> Work {
    match kind {
        Kind::TranslateX => Work::translation(-argument * f64::from(size.0), 0.0),
        Kind::TranslateY => Work::translation(0.0, -argument * f64::from(size.1)),
        Kind::Color | Kind::Contrast | Kind::Brightness | Kind::Sharpness => work(kind, argument - 1.0),
        Kind::Solarize => work(kind, argument / 255.0),
        Kind::SolarizeAdd => Work::Colours(added(argument as u8)),
        _ => work(kind, argument),
    }
}

/// The sum for numbers below 128.
fn added(by: u8) -> Change {
    if by == 0 {
        return Change::Nothing;
    }
    Change::Rows(Arc::new(Tables::from_fn(|number| if number < 128 { number.saturating_add(by) } else { number })))
}
