//! The operations on images, a file each: what it does to the chain, and how it is made of the arguments that Python gives.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use super::chain::Chain;
pub use super::chain::Op;
use super::filter::{Filter, Scaling};
use crate::core::keys::Rng;

mod affine;
pub mod colour;
mod crop;
mod crops;
mod erasing;
mod flip;
pub mod follow;
mod grayscale;
pub mod iou_crop;
mod nested;
mod pad;
mod policy;
mod resize;
mod resizes;
mod table;
pub mod warp;
mod warps;

pub use affine::{RandomAffine, RandomRotation};
pub use colour::{
    ColorJitter, GaussianBlur, GaussianNoise, Grayscale, Jpeg, RandomChange, RandomChannelPermutation,
    RandomPhotometricDistort,
};
pub use crop::{CenterCrop, RandomResizedCrop};
pub use crops::{Crops, Mirrored};
pub use erasing::{Erased, RandomErasing};
pub use flip::{RandomHorizontalFlip, RandomVerticalFlip};
pub use grayscale::RandomGrayscale;
pub use iou_crop::RandomIoUCrop;
pub use nested::{Compose, RandomApply, RandomChoice, RandomOrder};
pub use pad::{Margin, Pad, RandomCrop, RandomZoomOut};
pub use policy::{AugMix, AutoAugment, RandAugment, TimmAugment, TrivialAugmentWide};
pub use resize::{Fit, Resize};
pub use resizes::{Letterbox, RandomResize, RandomShortestSize, ScaleJitter};
pub use table::RandomTable;
pub use warps::{ElasticTransform, RandomPerspective};

/// Operations with their numbers, which key their random choices.
pub type Ops = Vec<(u64, Arc<dyn Op>)>;

type Make = fn(&Arguments) -> Result<Arc<dyn Op>, String>;

/// Every operation by its name in Python.
const OPS: &[(&str, Make)] = &[
    ("RandomResizedCrop", |from| Ok(Arc::new(RandomResizedCrop::new(from)?))),
    ("Resize", |from| Ok(Arc::new(Resize::new(from)?))),
    ("CenterCrop", |from| Ok(Arc::new(CenterCrop::new(from)?))),
    ("FiveCrop", |from| Ok(Arc::new(Crops::five(from)?))),
    ("TenCrop", |from| Ok(Arc::new(Crops::ten(from)?))),
    ("RandomHorizontalFlip", |from| Ok(Arc::new(RandomHorizontalFlip { p: from.number("p")? }))),
    ("RandomVerticalFlip", |from| Ok(Arc::new(RandomVerticalFlip { p: from.number("p")? }))),
    ("RandomRotation", |from| Ok(Arc::new(RandomRotation::new(from)?))),
    ("RandomAffine", |from| Ok(Arc::new(RandomAffine::new(from)?))),
    ("RandomPerspective", |from| Ok(Arc::new(RandomPerspective::new(from)?))),
    ("ElasticTransform", |from| Ok(Arc::new(ElasticTransform::new(from)?))),
    ("Pad", |from| Ok(Arc::new(Pad::new(from)?))),
    ("RandomCrop", |from| Ok(Arc::new(RandomCrop::new(from)?))),
    ("RandomZoomOut", |from| Ok(Arc::new(RandomZoomOut::new(from)?))),
    ("RandomIoUCrop", |from| Ok(Arc::new(RandomIoUCrop::new(from)?))),
    ("RandomResize", |from| Ok(Arc::new(RandomResize::new(from)?))),
    ("RandomShortestSize", |from| Ok(Arc::new(RandomShortestSize::new(from)?))),
    ("ScaleJitter", |from| Ok(Arc::new(ScaleJitter::new(from)?))),
    ("Letterbox", |from| Ok(Arc::new(Letterbox::new(from)?))),
    ("RandomGrayscale", |from| Ok(Arc::new(RandomGrayscale { p: from.number("p")? }))),
    ("Grayscale", |from| Ok(Arc::new(Grayscale { channels: from.number("num_output_channels")? as usize }))),
    ("ColorJitter", |from| Ok(Arc::new(ColorJitter::new(from)?))),
    ("RandomPhotometricDistort", |from| Ok(Arc::new(RandomPhotometricDistort::new(from)?))),
    ("RandomChannelPermutation", |_| Ok(Arc::new(RandomChannelPermutation))),
    ("RandomAutocontrast", |from| Ok(Arc::new(RandomChange::new(from, colour::autocontrast())?))),
    ("RandomEqualize", |from| Ok(Arc::new(RandomChange::new(from, colour::equalize())?))),
    ("RandomAdjustSharpness", |from| {
        Ok(Arc::new(RandomChange::new(from, colour::sharpness(from.number("sharpness_factor")?))?))
    }),
    ("GaussianBlur", |from| Ok(Arc::new(GaussianBlur::new(from)?))),
    ("GaussianNoise", |from| Ok(Arc::new(GaussianNoise::new(from)?))),
    ("JPEG", |from| Ok(Arc::new(Jpeg::new(from)?))),
    ("RandomErasing", |from| Ok(Arc::new(RandomErasing::new(from)?))),
    ("RandomTable", |from| Ok(Arc::new(RandomTable::new(from)?))),
    ("TrivialAugmentWide", |from| Ok(Arc::new(TrivialAugmentWide::new(from)?))),
    ("RandAugment", |from| Ok(Arc::new(RandAugment::new(from)?))),
    ("AutoAugment", |from| Ok(Arc::new(AutoAugment::new(from)?))),
    ("TimmAugment", |from| Ok(Arc::new(TimmAugment::new(from)?))),
    ("AugMix", |from| Ok(Arc::new(AugMix::new(from)?))),
    ("Compose", |from| Ok(Arc::new(Compose::new(from)?))),
    ("RandomApply", |from| Ok(Arc::new(RandomApply::new(from)?))),
    ("RandomChoice", |from| Ok(Arc::new(RandomChoice::new(from)?))),
    ("RandomOrder", |from| Ok(Arc::new(RandomOrder::new(from)?))),
];

/// The operation of that name.
///
/// # Errors
/// If there is none, or an argument is missing or of another type.
pub fn make(name: &str, arguments: &Arguments) -> Result<Arc<dyn Op>, String> {
    let (_, make) =
        OPS.iter().find(|(known, _)| *known == name).ok_or_else(|| format!("unknown operation {name:?}"))?;
    make(arguments)
}

/// An argument of an operation.
#[derive(Clone, Debug)]
pub enum Argument {
    /// True or False.
    Switch(bool),
    /// A number.
    Number(f64),
    /// Two numbers.
    Pair(f64, f64),
    /// A word.
    Text(String),
    /// A byte for every byte.
    Table(Box<[u8; 256]>),
    /// Any number of numbers.
    Numbers(Vec<f64>),
    /// Ops inside of the op.
    Ops(Ops),
}

/// The arguments of an operation by their names; what is None in Python is not there.
#[derive(Clone, Debug, Default)]
pub struct Arguments(pub HashMap<String, Argument>);

impl Arguments {
    fn wrong<T>(&self, name: &str, wanted: &str) -> Result<T, String> {
        Err(format!("{name:?} is {:?}, instead of {wanted}", self.0.get(name)))
    }

    /// A number.
    ///
    /// # Errors
    /// As all of these: if it is missing, or of another type.
    pub fn number(&self, name: &str) -> Result<f64, String> {
        if let Some(Argument::Number(value)) = self.0.get(name) { Ok(*value) } else { self.wrong(name, "a number") }
    }

    /// Two numbers.
    pub fn pair(&self, name: &str) -> Result<(f64, f64), String> {
        if let Some(Argument::Pair(a, b)) = self.0.get(name) { Ok((*a, *b)) } else { self.wrong(name, "two numbers") }
    }

    /// A byte for every byte.
    pub fn table(&self, name: &str) -> Result<[u8; 256], String> {
        if let Some(Argument::Table(table)) = self.0.get(name) { Ok(**table) } else { self.wrong(name, "256 bytes") }
    }

    /// Numbers, however many.
    pub fn numbers(&self, name: &str) -> Result<Vec<f64>, String> {
        match self.0.get(name) {
            Some(Argument::Number(value)) => Ok(vec![*value]),
            Some(Argument::Pair(a, b)) => Ok(vec![*a, *b]),
            Some(Argument::Numbers(values)) => Ok(values.clone()),
            _ => self.wrong(name, "numbers"),
        }
    }

    /// True or False.
    pub fn switch(&self, name: &str) -> Result<bool, String> {
        if let Some(Argument::Switch(value)) = self.0.get(name) {
            Ok(*value)
        } else {
            self.wrong(name, "true or false")
        }
    }

    /// A word.
    pub fn text(&self, name: &str) -> Result<&str, String> {
        if let Some(Argument::Text(value)) = self.0.get(name) { Ok(value) } else { self.wrong(name, "a word") }
    }

    /// Ops inside of the op.
    pub fn ops(&self, name: &str) -> Result<Ops, String> {
        if let Some(Argument::Ops(ops)) = self.0.get(name) { Ok(ops.clone()) } else { self.wrong(name, "ops") }
    }

    /// Rows and columns.
    pub fn size(&self, name: &str) -> Result<(u32, u32), String> {
        self.pair(name).map(|(height, width)| (height as u32, width as u32))
    }

    /// How pixels are resampled: "interpolation" and "antialias".
    pub fn scaling(&self) -> Result<Scaling, String> {
        let antialias = self.switch("antialias")?;
        let filter = match self.0.get("interpolation") {
            Some(Argument::Text(name)) if name == "nearest" => Filter::Nearest,
            Some(Argument::Text(name)) if name == "nearest-exact" => Filter::NearestExact,
            Some(Argument::Text(name)) if name == "bilinear" => Filter::Bilinear,
            Some(Argument::Text(name)) if name == "bicubic" => Filter::Bicubic,
            _ => return self.wrong("interpolation", "nearest, nearest-exact, bilinear or bicubic"),
        };
        Ok(Scaling { filter, antialias })
    }
}

/// Python's `round`: halves to the even neighbour.
pub(super) fn round(value: f64) -> u32 {
    value.round_ties_even() as u32
}

/// Whether an op of probability `p` does anything to the image: the first number that it draws.
pub(super) fn chance(p: f64, chain: &mut Chain, rng: &mut Rng) -> bool {
    let is_applied = rng.uniform() < p;
    chain.drew("applied", u8::from(is_applied));
    is_applied
}
