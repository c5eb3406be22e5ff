//! Thrift's compact protocol, read and written:
//! <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>.
//!
//! A reader never reads past its bytes, and allocates no memory by a count in the data.

mod reader;
mod writer;

use std::fmt;

pub use reader::Reader;
pub use writer::Writer;

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const SHORTEST_NUMBER: u8 = 4;
/// A whole number of 32 bits.
pub const INT: u8 = 5;
/// A whole number of 64 bits.
pub const LONG: u8 = 6;
const DOUBLE: u8 = 7;
/// Bytes, or text.
pub const BINARY: u8 = 8;
/// A list of values of one kind.
pub const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
/// Fields, each of a kind of its own.
pub const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// Bytes that are not what they should be: where, and what was found.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// The byte, counted from the first that was given.
    pub at: usize,
    /// What is wrong there.
    pub found: &'static str,
}

impl fmt::Display for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "byte {}: {}", self.at, self.found)
    }
}
