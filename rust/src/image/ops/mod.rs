//! The operations on images, a file each: what it does to the chain, and how it is made of the arguments that Python gives.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use super::chain::Chain;
use super::filter::{Filter, Scaling};
use crate::core::keys::Rng;

mod crop;
mod flip;
mod grayscale;
mod resize;
mod table;

pub use crop::{CenterCrop, RandomResizedCrop};
pub use flip::{RandomHorizontalFlip, RandomVerticalFlip};
pub use grayscale::RandomGrayscale;
pub use resize::{Fit, Resize};
pub use table::RandomTable;

/// One operation, with torchvision v2's sampling and rounding rules
/// (torchvision, `transforms/v2/_geometry.py` and `functional/_geometry.py`).
pub trait Op: Debug + Send + Sync {
    /// Applies the operation to one image's chain, with its random choices from `rng`.
    fn apply(&self, chain: &mut Chain, rng: &mut Rng);
}

/// Operations with their numbers, which key their random choices.
pub type Ops = Vec<(u64, Arc<dyn Op>)>;

type Make = fn(&Arguments) -> Result<Arc<dyn Op>, String>;

/// Every operation by its name in Python.
const OPS: &[(&str, Make)] = &[
    ("RandomResizedCrop", |from| Ok(Arc::new(RandomResizedCrop::new(from)?))),
    ("Resize", |from| Ok(Arc::new(Resize::new(from)?))),
    ("CenterCrop", |from| Ok(Arc::new(CenterCrop::new(from)?))),
    ("RandomHorizontalFlip", |from| Ok(Arc::new(RandomHorizontalFlip { p: from.number("p")? }))),
    ("RandomVerticalFlip", |from| Ok(Arc::new(RandomVerticalFlip { p: from.number("p")? }))),
    ("RandomGrayscale", |from| Ok(Arc::new(RandomGrayscale { p: from.number("p")? }))),
    ("RandomTable", |from| Ok(Arc::new(RandomTable::new(from)?))),
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
#[derive(Clone, Debug, PartialEq)]
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

    /// Rows and columns.
    pub fn size(&self, name: &str) -> Result<(u32, u32), String> {
        self.pair(name).map(|(height, width)| (height as u32, width as u32))
    }

    /// How pixels are resampled: "interpolation" and "antialias".
    pub fn scaling(&self) -> Result<Scaling, String> {
        let Some(Argument::Switch(antialias)) = self.0.get("antialias") else {
            return self.wrong("antialias", "true or false");
        };
        let filter = match self.0.get("interpolation") {
            Some(Argument::Text(name)) if name == "nearest" => Filter::Nearest,
            Some(Argument::Text(name)) if name == "nearest-exact" => Filter::NearestExact,
            Some(Argument::Text(name)) if name == "bilinear" => Filter::Bilinear,
            Some(Argument::Text(name)) if name == "bicubic" => Filter::Bicubic,
            _ => return self.wrong("interpolation", "nearest, nearest-exact, bilinear or bicubic"),
        };
        Ok(Scaling { filter, antialias: *antialias })
    }
}

/// Python's `round`: halves to the even neighbour.
pub(super) fn round(value: f64) -> u32 {
    value.round_ties_even() as u32
}
