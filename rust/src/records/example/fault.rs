//! What can be wrong with one record, and its messages.

use super::kind::Kind;

/// What is wrong. Places are bytes of the buffer that holds the record. Small and cheap to pass up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// The span does not lie in its buffer.
    Span,
    /// The frame does not fit the span: the file changed after it was indexed.
    Frame {
        /// Bytes of data that the frame states.
        stated: u64,
        /// Bytes of data that the span has room for.
        indexed: u64,
    },
    /// The data does not have the sum that follows it.
    Checksum {
        /// The sum of the bytes as they are.
        found: u32,
        /// The sum that the file states.
        stated: u32,
    },
    /// The bytes are not an Example.
    Wire {
        /// Where.
        at: usize,
        /// In words.
        what: &'static str,
    },
    /// The record lacks the feature.
    Missing,
    /// The feature holds other values than the column.
    Kind {
        /// What it holds.
        found: Kind,
    },
    /// The feature holds another number of values than the column.
    Count {
        /// How many it holds.
        found: usize,
    },
    /// The feature holds more values than the limit.
    Many {
        /// How many it holds.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// An integer that the column's dtype cannot hold exactly.
    Integer {
        /// The value.
        value: i64,
    },
    /// A float that is too large for the column's dtype.
    Float {
        /// The value.
        value: f32,
    },
    /// Bytes that should be text are not UTF-8.
    Text,
}

impl Fault {
    /// The fault in words: (what was found, what to do). `feature` and `expected` describe the column concerned;
    /// `start` is where the record begins in its buffer.
    #[must_use]
    pub fn describe(self, feature: Option<&str>, expected: &str, start: usize) -> (String, String) {
        let feature = feature.map_or_else(String::new, |name| format!("feature {name:?}: "));
        let (found, remedy) = match self {
            Self::Span => ("a span that does not lie in its buffer".to_owned(), "this is a mistake of the reader"),
            Self::Frame { stated, indexed } => (
                format!("the frame states {stated} bytes of data, the index {indexed}"),
                "the file changed after it was indexed, or is damaged: index it again",
            ),
            Self::Checksum { found, stated } => (
                format!("the data's checksum is {found:#010x}, the file says {stated:#010x}"),
                "the file is damaged: write it again",
            ),
            Self::Wire { at, what } => (
                format!("not a tf.train.Example: byte {} of the record: {what}", at.saturating_sub(start)),
                "write the file again, or read it with the format that it has",
            ),
            Self::Missing => (
                format!("the record lacks it; expected {expected}"),
                "give the column a default, e.g. Column(feature=…, default=0)",
            ),
            Self::Kind { found } => {
                (format!("found {}, expected {expected}", found.name()), "give the column the dtype that the file has")
            }
            Self::Count { found } => (
                format!("found {found} values, expected {expected}"),
                "give the column the right shape; shape=(None,) takes any number of values",
            ),
            Self::Many { found, limit } => (
                format!("found {found} values, the limit is {limit}"),
                "raise Limits.values if the file can be trusted",
            ),
            Self::Integer { value } => {
                (format!("the value {value} does not fit; expected {expected}"), "give the column a wider dtype")
            }
            Self::Float { value } => {
                (format!("the value {value:e} does not fit; expected {expected}"), "give the column a wider dtype")
            }
            Self::Text => {
                (format!("bytes that are not UTF-8; expected {expected}"), "give the column the dtype \"bytes\"")
            }
        };
        (feature + &found, remedy.to_owned())
    }
}
