//! Tar archives (POSIX.1-1988 ustar, POSIX.1-2001 pax, GNU long names and base-256 sizes), member by member. Nothing is
//! ever extracted: names are only names.

pub mod bytes;
mod header;
pub mod index;
pub mod members;
pub mod npy;
pub mod parse;
mod pax;
pub mod sample;

use crate::records::framing::unpack::{Packing, recognise_magic};

pub use header::{BLOCK_BYTES, is_header};

/// How a tar archive is packed, from its first block.
#[must_use]
pub fn recognise(start: &[u8]) -> Packing {
    if is_header(start) { Packing::Plain } else { recognise_magic(start) }
}
