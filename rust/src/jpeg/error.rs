//! What can be wrong with a JPEG file or with a request to decode it.

use thiserror::Error;

/// Why an image could not be decoded. Offsets are in bytes from the start of the record.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum JpegError {
    /// The bytes end before the image does.
    #[error("byte {offset}: the file ends inside {what}")]
    Truncated {
        /// Where the bytes ran out.
        offset: usize,
        /// What was being read.
        what: &'static str,
    },
    /// Bytes that no JPEG file may hold at this place.
    #[error("byte {offset}: {what}, found {found:#x}")]
    Corrupt {
        /// Where it was found.
        offset: usize,
        /// The rule that is broken.
        what: &'static str,
        /// The offending value.
        found: u32,
    },
    /// A valid file of a kind that another decoder has to read.
    #[error("byte {offset}: {what} ({found:#x}) is outside what this decoder reads")]
    Unsupported {
        /// Where it was found.
        offset: usize,
        /// The feature.
        what: &'static str,
        /// Its value.
        found: u32,
    },
    /// The image is larger than the caller allows.
    #[error("the image has {pixels} pixels, the limit is {limit}")]
    TooLarge {
        /// Width times height.
        pixels: u64,
        /// `DecodeOptions::max_pixels`.
        limit: u64,
    },
    /// Components in scans of their own, which are held until the last has come.
    #[error("its samples take {bytes} bytes, which the process may not have or the limit of {limit} forbids")]
    TooManyBytes {
        /// Bytes of all samples that are needed.
        bytes: u64,
        /// `DecodeOptions::max_bytes`.
        limit: u64,
    },
    /// The region or scale is not possible for this image.
    #[error("{what}: the image is {width}x{height} at this scale")]
    Request {
        /// What is wrong with the request.
        what: &'static str,
        /// Width at the requested scale.
        width: u32,
        /// Height at the requested scale.
        height: u32,
    },
    /// Entry points that do not fit the image.
    #[error("entry points, byte {offset}: {what}")]
    EntryPoints {
        /// Byte of the serialised index, or of the image.
        offset: usize,
        /// What does not fit.
        what: &'static str,
    },
}
