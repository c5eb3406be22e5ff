//! Random sizes, and sizes that keep the ratio inside of a frame.

use super::super::chain::Chain;
use super::super::filter::Scaling;
use super::super::moves::Window;
use super::resize::{Fit, fitted};
use super::{Arguments, Op, round};
use crate::core::keys::Rng;

/// Resized to a random length of the shorter side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomResize {
    /// Least, and the first that is too much.
    pub range: (u32, u32),
    /// The filter.
    pub scaling: Scaling,
}

impl RandomResize {
    pub(super) fn new(from: &Arguments) -> Result<Self, String> {
        let range = (from.number("min_size")? as u32, from.number("max_size")? as u32);
        if range.0 >= range.1 {
            return from.wrong("max_size", "a number above min_size");
        }
        Ok(Self { range, scaling: from.scaling()? })
    }
}

impl Op for RandomResize {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        let size = self.range.0 + rng.below(u64::from(self.range.1 - self.range.0)) as u32;
        chain.drew("size", size);
        chain.resize(fitted(chain.size(), Fit::Shorter { size, max_size: None }), self.scaling);
    }
}

/// `int(side × times)` of both sides, at least 1.
fn times(size: (u32, u32), times: f64) -> (u32, u32) {
    let side = |side: u32| ((f64::from(side) * times) as u32).max(1);
    (side(size.0), side(size.1))
}

/// Resized to one of some lengths of the shorter side.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomShortestSize {
    /// The lengths.
    pub min_size: Vec<f64>,
    /// Most pixels of the longer side.
    pub max_size: Option<f64>,
    /// The filter.
    pub scaling: Scaling,
}

impl RandomShortestSize {
    pub(super) fn new(from: &Arguments) -> Result<Self, String> {
        let (min_size, max_size) = (from.numbers("min_size")?, from.number("max_size").ok());
        if min_size.is_empty() {
            return from.wrong("min_size", "numbers");
        }
        Ok(Self { min_size, max_size, scaling: from.scaling()? })
    }
}

impl Op for RandomShortestSize {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        let size = self.min_size[rng.below(self.min_size.len() as u64) as usize];
        chain.drew("min_size", size);
        let (width, height) = chain.size();
        let wanted = size / f64::from(width.min(height));
        let most = self.max_size.map_or(f64::INFINITY, |most| most / f64::from(width.max(height)));
        chain.resize(times((width, height), wanted.min(most)), self.scaling);
    }
}

/// Resized to a random share of what fits into a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleJitter {
    /// Rows and columns of the frame.
    pub target_size: (u32, u32),
    /// Range of the share.
    pub scale_range: (f64, f64),
    /// The filter.
    pub scaling: Scaling,
}

impl ScaleJitter {
    pub(super) fn new(from: &Arguments) -> Result<Self, String> {
        Ok(Self {
            target_size: from.size("target_size")?,
            scale_range: from.pair("scale_range")?,
            scaling: from.scaling()?,
        })
    }
}

impl Op for ScaleJitter {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        let scale = rng.uniform_in(self.scale_range.0, self.scale_range.1);
        chain.drew("scale", scale);
        let (width, height) = chain.size();
        // torchvision divides the frame's second number by the height, and its first by the width; so frames that are not square are turned.
        let (first, second) = self.target_size;
        let fits = (f64::from(second) / f64::from(height)).min(f64::from(first) / f64::from(width));
        // It goes on in float32.
        let times = fits as f32 * scale as f32;
        let side = |side: u32| ((side as f32 * times) as u32).max(1);
        chain.resize((side(width), side(height)), self.scaling);
    }
}

/// All of the image, as large as a frame holds it, in the frame's middle.
#[derive(Clone, Debug, PartialEq)]
pub struct Letterbox {
    /// Rows and columns of the frame.
    pub size: (u32, u32),
    /// What stands around the image.
    pub fill: Vec<f64>,
    /// The filter.
    pub scaling: Scaling,
}

impl Letterbox {
    pub(super) fn new(from: &Arguments) -> Result<Self, String> {
        Ok(Self { size: from.size("size")?, fill: from.numbers("fill")?, scaling: from.scaling()? })
    }
}

impl Op for Letterbox {
    fn apply(&self, chain: &mut Chain, _: &mut Rng) {
        let ((width, height), (rows, columns)) = (chain.size(), self.size);
        let fits = (f64::from(rows) / f64::from(height)).min(f64::from(columns) / f64::from(width));
        let side = |side: u32, most: u32| round(f64::from(side) * fits).clamp(1, most);
        let (width, height) = (side(width, columns), side(height, rows));
        chain.resize((width, height), self.scaling);
        let (x, y) = (-i64::from((columns - width) / 2), -i64::from((rows - height) / 2));
        chain.crop_filled(Window { x, y, width: columns, height: rows }, chain.fill_of(&self.fill));
    }
}
