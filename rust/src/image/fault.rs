//! What is wrong with one image.

use std::any::Any;
use std::fmt::Display;

/// A complaint: what was found, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found}; {remedy}")]
pub struct Fault {
    /// What was found.
    pub found: String,
    /// What to do.
    pub remedy: String,
}

impl Fault {
    /// The error of an image that cannot be decoded.
    pub fn damaged(found: impl Into<String>) -> Self {
        Self::new(found, "replace the file")
    }

    /// The error of a JPEG that cannot be decoded.
    pub fn damaged_jpeg(error: impl Display) -> Self {
        Self::damaged(format!("a damaged JPEG ({error})"))
    }

    /// The complaint that a decoder's panic makes.
    #[must_use]
    pub fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let words =
            panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Self::damaged(format!("an image that its decoder cannot handle ({})", words.unwrap_or("it panicked")))
    }

    /// A complaint with its remedy.
    pub fn new(found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { found: found.into(), remedy: remedy.into() }
    }
}
