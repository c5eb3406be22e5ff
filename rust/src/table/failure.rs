//! What is wrong with a row of a chunk.

use crate::core::errors::RowFailure;

/// What is wrong with a row, or how a step was misused.
#[derive(Debug)]
pub struct Failure {
    /// The row of the chunk.
    pub row: usize,
    found: String,
    remedy: String,
}

impl Failure {
    /// A step that gets what it cannot work on: a bug of the caller.
    #[must_use]
    pub fn misuse(found: &str) -> Self {
        Self { row: 0, found: found.into(), remedy: "this is a bug of Penstock; please report it".into() }
    }

    /// Of a row: what was found, and what to do.
    pub fn new(row: usize, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { row, found: found.into(), remedy: remedy.into() }
    }

    /// Of a row that is missing where whole numbers go out.
    #[must_use]
    pub fn missing(row: usize) -> Self {
        Self::new(row, "is missing, which whole numbers cannot say", "put FillMissing before it")
    }

    /// The same of a column, in a chunk that begins at row `first`.
    #[must_use]
    pub fn of_column(self, name: &str, first: usize) -> RowFailure {
        let found = format!("column '{name}' {}", self.found);
        RowFailure { row: first + self.row, found, remedy: self.remedy }
    }
}
