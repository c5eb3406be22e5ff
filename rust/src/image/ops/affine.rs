//! Random rotations and affine maps.

use super::super::affine::Affine;
use super::super::chain::Chain;
use super::warp::{Look, affine, optional_pair, rotate};
use super::{Arguments, Op};
use crate::core::keys::Rng;

/// The image, rotated by a random angle.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomRotation {
    /// Range of degrees, anticlockwise.
    pub degrees: (f64, f64),
    /// Whether the result holds all of the image.
    pub expand: bool,
    /// Column and row that stay where they are.
    pub center: Option<(f64, f64)>,
    /// Of the result.
    pub look: Look,
}

impl RandomRotation {
    pub(super) fn new(from: &Arguments) -> Result<Self, String> {
        Ok(Self {
            degrees: from.pair("degrees")?,
            expand: from.switch("expand")?,
            center: optional_pair(from, "center")?,
            look: Look::new(from)?,
        })
    }
}

impl Op for RandomRotation {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        let angle = rng.uniform_in(self.degrees.0, self.degrees.1);
        chain.drew("angle", angle);
        rotate(chain, angle, &self.look, self.expand, self.center);
    }
}

/// The image, rotated, moved, scaled and sheared at random.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomAffine {
    /// Range of degrees, clockwise.
    pub degrees: (f64, f64),
    /// Most that it is moved by, as shares of the width and height.
    pub translate: Option<(f64, f64)>,
    /// Range of times as large.
    pub scale: Option<(f64, f64)>,
    /// Ranges of degrees: along x, or along x and y.
    pub shear: Option<Vec<f64>>,
    /// Column and row that stay where they are.
    pub center: Option<(f64, f64)>,
    /// Of the result.
    pub look: Look,
}

impl RandomAffine {
    pub(super) fn new(from: &Arguments) -> Result<Self, String> {
        let shear = if from.0.contains_key("shear") { Some(from.numbers("shear")?) } else { None };
        if shear.as_ref().is_some_and(|shear| ![2, 4].contains(&shear.len())) {
            return from.wrong("shear", "two or four numbers");
        }
        Ok(Self {
            degrees: from.pair("degrees")?,
            translate: optional_pair(from, "translate")?,
            scale: optional_pair(from, "scale")?,
            shear,
            center: optional_pair(from, "center")?,
            look: Look::new(from)?,
        })
    }
}

impl Op for RandomAffine {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        let mut how = Affine { center: self.center, ..Affine::default() };
        let mut draw = |low: f64, high: f64| rng.uniform_in(low, high);
        how.angle = draw(self.degrees.0, self.degrees.1);
        if let Some((most_x, most_y)) = self.translate {
            let (most_x, most_y) = (most_x * f64::from(chain.size().0), most_y * f64::from(chain.size().1));
            how.translate = (draw(-most_x, most_x).round_ties_even(), draw(-most_y, most_y).round_ties_even());
        }
        if let Some((low, high)) = self.scale {
            how.scale = draw(low, high);
        }
        if let Some(shear) = &self.shear {
            how.shear = (draw(shear[0], shear[1]), shear.get(3).map_or(0.0, |&high| draw(shear[2], high)));
        }
        let named = [("angle", how.angle), ("translate_x", how.translate.0), ("translate_y", how.translate.1)];
        named.into_iter().for_each(|(name, value)| chain.drew(name, value));
        let named = [("scale", how.scale), ("shear_x", how.shear.0), ("shear_y", how.shear.1)];
        named.into_iter().for_each(|(name, value)| chain.drew(name, value));
        affine(chain, &how, &self.look);
    }
}
