//! Rows of tokens to sequences of one length: first a plan, which says what lies where, then its outputs, filled on all threads.

use std::ops::Range;

mod best_fit;
mod concat;
mod fill;
mod rooms;

pub use best_fit::best_fit;
pub use concat::{Group, concat};
pub use fill::{Output, Sequences, fill};

/// Which row's tokens lie where. Everything is int64, as NumPy takes it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The row of each segment.
    pub rows: Vec<i64>,
    /// How many tokens of its row come before each segment.
    pub starts: Vec<i64>,
    /// Tokens of each segment.
    pub lengths: Vec<i64>,
    /// The first segment of each sequence, and the end of all.
    pub edges: Vec<i64>,
    /// Sequences of each group.
    pub sequences: Vec<i64>,
}

impl Plan {
    fn new() -> Self {
        Self { edges: vec![0], ..Self::default() }
    }

    fn push(&mut self, piece: Piece) {
        self.rows.push(as_i64(piece.row));
        self.starts.push(as_i64(piece.start));
        self.lengths.push(as_i64(piece.length));
    }

    /// The segments since the last sequence become one.
    fn end_sequence(&mut self) {
        self.edges.push(as_i64(self.rows.len()));
    }

    /// Segments that are in no sequence are dropped.
    fn drop_open(&mut self) {
        let ended = self.edges.last().map_or(0, |&edge| as_usize(edge));
        self.rows.truncate(ended);
        self.starts.truncate(ended);
        self.lengths.truncate(ended);
    }
}

/// Neighbouring tokens of a row.
#[derive(Debug, Clone, Copy)]
struct Piece {
    row: usize,
    start: usize,
    length: usize,
}

/// What a row's length counts for where longer rows are truncated to `limit`.
fn tokens_of(lengths: &[i64], row: usize, limit: Option<usize>) -> usize {
    let found = as_usize(lengths[row]);
    limit.map_or(found, |limit| found.min(limit))
}

/// The rows of each group, which lie one after the other; the last ends with the rows that there are.
fn groups(group_rows: &[usize], rows: usize) -> impl Iterator<Item = Range<usize>> {
    let mut end = 0_usize;
    group_rows.iter().map(move |&count| {
        let first = end;
        end = rows.min(first.saturating_add(count));
        first..end
    })
}

/// Lengths and numbers of rows are checked before, or come from `usize`.
fn as_usize(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

fn as_i64(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
