//! What can be wrong with one record of JSON, and its messages.

use crate::core::errors::RowFailure;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// The record is not JSON.
    Syntax {
        /// The byte of the record.
        at: usize,
        /// In words.
        what: &'static str,
    },
    /// The column's value is not of its kind.
    Kind {
        /// The byte of the record.
        at: usize,
        /// What it is instead.
        found: &'static str,
    },
    /// A value with which the keys to the column do not go on.
    NoObject {
        /// The byte of the record.
        at: usize,
        /// What it is instead.
        found: &'static str,
    },
    /// A number that the column's dtype cannot hold.
    Range {
        /// The byte of the record.
        at: usize,
    },
    /// A list has another number of values than the column.
    Count {
        /// The byte of the record.
        at: usize,
        /// How many it has, as far as was read.
        found: usize,
    },
    /// More values than the limit.
    Many {
        /// The byte of the record.
        at: usize,
        /// The limit.
        limit: usize,
    },
    /// The key occurs twice.
    Twice {
        /// The byte of the record.
        at: usize,
    },
    /// A key that leads to the column occurs twice.
    TwiceOuter {
        /// The byte of the record.
        at: usize,
    },
    /// The record lacks the key.
    Missing,
    /// The value is null.
    Null,
}

impl Fault {
    /// The fault in words. `column` is the key and what is expected of it.
    #[must_use]
    pub fn describe(self, row: usize, column: Option<(&str, &str)>) -> RowFailure {
        let (key, expected) = column.unwrap_or_default();
        let (at, found, remedy) = match self {
            Self::Syntax { at, what } => (Some(at), format!("not JSON: {what}"), "repair the line"),
            Self::Kind { at, found } => (
                Some(at),
                format!("{key:?} is {found}, expected {expected}"),
                "give the column the dtype that the file has",
            ),
            Self::NoObject { at, found } => (
                Some(at),
                format!("{found} where an object belongs, in which {key:?} is {expected}"),
                "repair the line, or take the JSON of the outer key: Column(feature=…, dtype=\"string\")",
            ),
            Self::Range { at } => (
                Some(at),
                format!("{key:?} is a number that {expected} cannot hold"),
                "give the column another dtype: Column(feature=…, dtype=\"uint64\"), \"float64\", which rounds, or \"string\", \
                 which takes its digits",
            ),
            Self::Count { at, found } => (
                Some(at),
                format!("{key:?} has {found} values or more, expected {expected}"),
                "give the column the right shape; shape=(None,) takes any number of values",
            ),
            Self::Many { at, limit } => (
                Some(at),
                format!("{key:?} has more than {limit} values"),
                "raise Limits.values if the file can be trusted",
            ),
            Self::Twice { at } => (Some(at), format!("the key {key:?} occurs twice"), "leave one of them in the line"),
            Self::TwiceOuter { at } => {
                (Some(at), format!("an outer key of {key:?} occurs twice"), "leave one of them in the line")
            }
            Self::Missing => (
                None,
                format!("the key {key:?} is missing, expected {expected}"),
                "give the column a default, e.g. Column(feature=…, default=0)",
            ),
            Self::Null => (
                None,
                format!("{key:?} is null, expected {expected}"),
                "give the column a default, e.g. Column(feature=…, default=0)",
            ),
        };
        let place = at.map_or_else(String::new, |at| format!("byte {at} of the line: "));
        RowFailure { row, found: place + &found, remedy: remedy.to_owned() }
    }
}
