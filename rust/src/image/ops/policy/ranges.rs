//! How strong a step of torchvision's policies can be.

use super::Kind;
use crate::core::keys::Rng;

/// The greatest magnitudes; all begin at 0, and those of solarize go from 1 to 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranges {
    /// A tangent.
    shear: f64,
    /// Pixels, of a side.
    translate: fn(f64) -> f64,
    /// Degrees.
    turn: f64,
    /// How far a factor is from 1.
    factor: f64,
    /// Bits that posterize keeps at first, and how many fewer at last.
    bits: (f32, f64),
}

/// Of AutoAugment and RandAugment.
pub(super) const USUAL: Ranges =
    Ranges { shear: 0.3, translate: |side| 150.0 / 331.0 * side, turn: 30.0, factor: 0.9, bits: (8.0, 4.0) };

/// Of TrivialAugmentWide.
pub(super) const WIDE: Ranges =
    Ranges { shear: 0.99, translate: |_| 32.0, turn: 135.0, factor: 0.99, bits: (8.0, 6.0) };

/// Of AugMix.
pub(super) const MIXED: Ranges =
    Ranges { shear: 0.3, translate: |side| side / 3.0, turn: 30.0, factor: 0.9, bits: (4.0, 4.0) };

impl Ranges {
    /// The magnitude of one of `bins`, for an image of that width and height.
    pub(super) fn magnitude(&self, kind: Kind, bin: u32, bins: u32, size: (u32, u32)) -> f64 {
        let upto = |end: f64| f64::from(linspace(0.0, end as f32, bin, bins));
        match kind {
            Kind::ShearX | Kind::ShearY => upto(self.shear),
            Kind::TranslateX => upto((self.translate)(f64::from(size.0))),
            Kind::TranslateY => upto((self.translate)(f64::from(size.1))),
            Kind::Rotate => upto(self.turn),
            Kind::Brightness | Kind::Color | Kind::Contrast | Kind::Sharpness => upto(self.factor),
            Kind::Posterize => {
                let lost = bin as f32 / (f64::from(bins - 1) / self.bits.1) as f32;
                f64::from((self.bits.0 - lost).round_ties_even())
            }
            Kind::Solarize => f64::from(linspace(1.0, 0.0, bin, bins)),
            _ => 0.0,
        }
    }
}

/// The magnitude, or its negative by a drawn sign.
pub(super) fn signed(kind: Kind, magnitude: f64, rng: &mut Rng) -> f64 {
    if kind.is_signed() && rng.uniform() <= 0.5 { -magnitude } else { magnitude }
}

/// PyTorch's `linspace` in float32: from both ends, each product and sum rounded once. 53 bits hold the products.
fn linspace(start: f32, end: f32, place: u32, count: u32) -> f32 {
    let step = f64::from((end - start) / (count - 1) as f32);
    if place < count / 2 {
        (f64::from(start) + step * f64::from(place)) as f32
    } else {
        (f64::from(end) - step * f64::from(count - 1 - place)) as f32
    }
}
