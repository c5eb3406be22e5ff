//! Policies: random steps of a list, each a change of colours or a warp whose strength ([`Kind`], magnitude) is drawn. Those of torchvision v2 are computed as it does
//! (`transforms/v2/_auto_augment.py`); [`timm`] has the steps and levels of timm, with torchvision's pixels.
//!
//! ```text
//! Steps::new(&ranges, …).draw(…)    a kind, and the magnitude of a bin, by turns + or -
//! work(kind, magnitude)             what that does: colours, an affine map, a turn
//! work.add(&mut chain, &look)       … on a chain; `on_canvas` for what several chains are mixed of
//! ```

mod auto;
mod chances;
mod mix;
mod rand;
mod ranges;
#[cfg(test)]
mod tests;
mod timm;

use std::sync::Arc;

use super::super::affine::Affine;
use super::super::chain::{Chain, Whole};
use super::super::mode::Mode;
use super::colour::{
    Change, autocontrast, brightness, contrast, equalize, invert, posterize, saturation, sharpness, solarize,
};
use super::warp::{Look, affine, affine_of, rotate, rotation_of};

pub use auto::AutoAugment;
pub use mix::AugMix;
pub use rand::{RandAugment, TrivialAugmentWide};
pub use timm::TimmAugment;

/// What a step does, by torchvision's names; its number is what `loader.draws` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Identity,
    /// Rows slide, the first one not at all.
    ShearX,
    /// Columns slide.
    ShearY,
    /// All moves to the right.
    TranslateX,
    /// All moves downwards.
    TranslateY,
    /// Turns around the middle.
    Rotate,
    /// See [`brightness`].
    Brightness,
    /// See [`saturation`].
    Color,
    /// See [`contrast`].
    Contrast,
    /// See [`sharpness`].
    Sharpness,
    /// See [`posterize`].
    Posterize,
    /// See [`solarize`].
    Solarize,
    /// See [`autocontrast`].
    AutoContrast,
    /// See [`equalize`].
    Equalize,
    /// See [`invert`].
    Invert,
    /// Adds to numbers below 128; timm's.
    SolarizeAdd,
}

impl Kind {
    /// Whether there is a magnitude that it depends on.
    const fn has_magnitude(self) -> bool {
        !matches!(self, Self::Identity | Self::AutoContrast | Self::Equalize | Self::Invert)
    }

    /// Whether torchvision draws the sign of its magnitude.
    const fn is_signed(self) -> bool {
        self.has_magnitude() && !matches!(self, Self::Posterize | Self::Solarize | Self::SolarizeAdd)
    }
}

/// What a step does, with its numbers.
#[derive(Clone, Debug)]
enum Work {
    Colours(Change),
    Affine(Affine),
    /// By degrees, anticlockwise.
    Turn(f64),
}

impl Work {
    /// A shear by what its tangents are.
    fn shear(x: f64, y: f64) -> Self {
        let shear = (x.atan().to_degrees(), y.atan().to_degrees());
        Self::Affine(Affine { shear, center: Some((0.0, 0.0)), ..Affine::default() })
    }

    fn translation(x: f64, y: f64) -> Self {
        Self::Affine(Affine { translate: (x, y), ..Affine::default() })
    }

    /// Puts it at the end of a chain.
    fn add(&self, chain: &mut Chain, look: &Look) {
        match self {
            Self::Colours(change) => change.add(chain),
            Self::Affine(how) => affine(chain, how, look),
            Self::Turn(degrees) => rotate(chain, *degrees, look, false, None),
        }
    }

    /// The same on a canvas of that size and mode; None if it does nothing.
    fn on_canvas(self, size: (u32, u32), mode: Mode, look: &Look) -> Option<Arc<dyn Whole>> {
        match self {
            Self::Colours(Change::Nothing) => None,
            Self::Colours(change) => Some(Arc::new(change)),
            Self::Affine(how) if how.only_translates() && how.translate == (0.0, 0.0) => None,
            Self::Affine(how) => Some(affine_of(size, mode, &how, look)),
            Self::Turn(0.0) => None,
            Self::Turn(degrees) => Some(rotation_of(size, mode, degrees, look)),
        }
    }
}

/// What torchvision does for a kind and its magnitude (`_apply_image_or_video_transform`).
fn work(kind: Kind, magnitude: f64) -> Work {
    Work::Colours(match kind {
        Kind::Identity | Kind::SolarizeAdd => Change::Nothing,
        Kind::ShearX => return Work::shear(magnitude, 0.0),
        Kind::ShearY => return Work::shear(0.0, magnitude),
        Kind::TranslateX => return Work::translation(magnitude.trunc(), 0.0),
        Kind::TranslateY => return Work::translation(0.0, magnitude.trunc()),
        Kind::Rotate => return Work::Turn(magnitude),
        Kind::Brightness => brightness(1.0 + magnitude),
        Kind::Color => saturation(1.0 + magnitude),
        Kind::Contrast => contrast(1.0 + magnitude),
        Kind::Sharpness => sharpness(1.0 + magnitude),
        Kind::Posterize => posterize(magnitude as u32),
        Kind::Solarize => solarize(255.0 * magnitude),
        Kind::AutoContrast => autocontrast(),
        Kind::Equalize => equalize(),
        Kind::Invert => invert(),
    })
}

/// Names of what steps draw, in their order; those that come after are not told.
const TOLD: [(&str, &str); 12] = [
    ("op_1", "magnitude_1"),
    ("op_2", "magnitude_2"),
    ("op_3", "magnitude_3"),
    ("op_4", "magnitude_4"),
    ("op_5", "magnitude_5"),
    ("op_6", "magnitude_6"),
    ("op_7", "magnitude_7"),
    ("op_8", "magnitude_8"),
    ("op_9", "magnitude_9"),
    ("op_10", "magnitude_10"),
    ("op_11", "magnitude_11"),
    ("op_12", "magnitude_12"),
];

/// Tells what the step at that place, from 0 on, is.
fn tell(chain: &mut Chain, place: usize, kind: Kind, magnitude: f64) {
    if let Some((op, of)) = TOLD.get(place) {
        chain.drew(op, kind as u8);
        chain.drew(of, magnitude);
    }
}
