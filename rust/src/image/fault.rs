//! What is wrong with one image.

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

    /// A complaint with its remedy.
    pub fn new(found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { found: found.into(), remedy: remedy.into() }
    }
}
