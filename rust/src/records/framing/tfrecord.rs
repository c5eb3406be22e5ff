//! TFRecord framing (TensorFlow, `core/lib/io/record_writer.h`): of each record a u64 length, the masked CRC-32C of these
//! eight bytes, the data, and the masked CRC-32C of the data; all little-endian, without any header or index.

use std::os::unix::fs::FileExt;
use std::path::Path;

use super::headers::Headers;
use super::index::{Index, Lengths, index_each, open_listed};
use super::{Progress, place_of, truncated};
use crate::core::crc32c;
use crate::core::errors::{FileTrouble, Trouble};

/// Bytes before the data: its length and the length's sum.
pub const HEADER_BYTES: usize = 12;
/// Bytes after the data: its sum.
pub const FOOTER_BYTES: usize = 4;
/// Bytes of a frame around its data.
pub const FRAME_BYTES: usize = HEADER_BYTES + FOOTER_BYTES;

/// What is wrong with a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderFault {
    /// The eight bytes of the length do not have the sum that follows them.
    Checksum {
        /// The sum of the bytes as they are.
        found: u32,
        /// The sum that the file states.
        stated: u32,
    },
}

/// The length of the data that follows a header.
///
/// # Errors
/// If the length's sum is wrong.
#[inline]
pub fn data_length(header: &[u8; HEADER_BYTES]) -> Result<u64, HeaderFault> {
    let (length, sum) = header.split_at(8);
    let found = crc32c::masked(length);
    let stated = u32::from_le_bytes([sum[0], sum[1], sum[2], sum[3]]);
    if found != stated {
        return Err(HeaderFault::Checksum { found, stated });
    }
    Ok(u64::from_le_bytes(header[..8].try_into().unwrap_or_default()))
}

/// Walks the frames of `size` bytes that `read(at, buffer)` gives access to, and calls `each` with the length of every
/// record, frame included. Memory is bounded, whatever the lengths say.
///
/// # Errors
/// At the first header with a wrong sum, and at the first record that is longer than `record_bytes` or than the rest.
pub fn walk_frames(
    size: u64,
    record_bytes: u64,
    read: impl FnMut(u64, &mut [u8]) -> Result<(), Trouble>,
    mut each: impl FnMut(u64) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    let mut headers = Headers::new(size, read);
    let (mut at, mut record, mut previous) = (0_u64, 0_u64, 0_u64);
    while at < size {
        let rest = size - at;
        if rest < FRAME_BYTES as u64 {
            return Err(truncated(record, at, format!("{rest} bytes are left, a record takes at least {FRAME_BYTES}")));
        }
        let header = headers.at(at, previous)?;
        let length = data_length(&header).map_err(|fault| bad_header(record, at, fault))?;
        if length > rest - FRAME_BYTES as u64 {
            return Err(truncated(
                record,
                at,
                format!("a record of {length} bytes, {} are left", rest - FRAME_BYTES as u64),
            ));
        }
        if length > record_bytes {
            let found = format!("a record of {length} bytes, the limit is {record_bytes}");
            return Err(Trouble::data(
                place_of(record, at),
                found,
                "raise Limits.record_bytes if the file can be trusted",
            ));
        }
        previous = length + FRAME_BYTES as u64;
        each(previous)?;
        at += previous;
        record += 1;
    }
    Ok(())
}

fn bad_header(record: u64, at: u64, fault: HeaderFault) -> Trouble {
    let HeaderFault::Checksum { found, stated } = fault;
    let what = format!("the length's checksum is {found:#010x}, the file says {stated:#010x}");
    let remedy = if record == 0 {
        "this is not a TFRecord file, or its beginning is damaged"
    } else {
        "the file is damaged here or something was appended to it: write it again"
    };
    Trouble::data(place_of(record, at), what, remedy)
}

/// The length of every record of a file, frame included, in order; the records lie without gaps.
///
/// # Errors
/// If the file cannot be read, is not of `size` bytes, or its frames are damaged.
pub fn index(path: &Path, size: u64, record_bytes: u64, progress: &Progress) -> Result<Vec<i64>, Trouble> {
    let file = open_listed(path, size)?;
    let mut lengths = Lengths::new(progress);
    let read = |at: u64, buffer: &mut [u8]| Ok(file.read_exact_at(buffer, at)?);
    walk_frames(size, record_bytes, read, |length| lengths.push(length))?;
    lengths.finish()
}

/// Indexes files in parallel.
///
/// # Errors
/// Of the first file that fails, see [`index`].
pub fn index_files<P: AsRef<Path> + Sync>(
    files: &[(P, u64)],
    record_bytes: u64,
    threads: usize,
    progress: &Progress,
) -> Result<Index, FileTrouble> {
    index_each(files.len(), threads, |file| {
        let (path, size) = &files[file];
        index(path.as_ref(), *size, record_bytes, progress)
    })
}
