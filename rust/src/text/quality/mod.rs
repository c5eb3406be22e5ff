//! Rules about the quality of a text, with datatrove's definitions: the first one that a text breaks.

pub mod c4;
mod counting;
pub mod fineweb;
pub mod gopher;
pub mod repetition;

use super::words::{Splitter, Word};
use counting::Seen;

/// What a thread works with.
#[derive(Default)]
pub struct Scratch {
    splitter: Splitter,
    words: Vec<Word>,
    seen: Seen,
    lower: String,
}

/// Rules, in the order in which they are looked at.
pub trait Rules: Sync {
    /// What each is called where a text breaks it; the first name is "", of texts that break none.
    fn names(&self) -> Vec<String>;

    /// The number of the first rule that a text breaks, 0 for none.
    fn broken(&self, text: &str, scratch: &mut Scratch) -> u8;
}

/// A threshold; 0 is none, as for datatrove.
fn given(threshold: Option<f64>) -> Option<f64> {
    threshold.filter(|&one| one != 0.0)
}

/// A part of a whole; nothing of nothing is 0.
fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
