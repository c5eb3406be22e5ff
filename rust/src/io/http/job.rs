//! One request: the bytes to request, and the destination of the response.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::{Landing, Outcome};

/// Bytes [from, from + length) of a job's response belong to request `request` of `landing`.
#[derive(Debug)]
pub struct Part {
    /// The destination.
    pub landing: Arc<Landing>,
    /// The request's number in the landing.
    pub request: usize,
    /// Offset in the job's response.
    pub from: u64,
    /// Bytes.
    pub length: u64,
}

/// One request: `length` bytes of an object from `start`.
#[derive(Debug)]
pub struct Job {
    /// The caller's number for it.
    pub ticket: u64,
    /// The object's URL, signed if needed.
    pub url: String,
    /// Identifies this version of the object (see `head::versions`); empty if nothing does.
    pub version: String,
    /// Bytes of the whole object.
    pub size: u64,
    /// The first byte.
    pub start: u64,
    /// How many.
    pub length: u64,
    /// The parts of the response, in order.
    pub parts: Vec<Part>,
}

impl Job {
    pub(super) fn range(&self) -> Range<u64> {
        self.start..self.start + self.length
    }

    /// Notes that the request is made now.
    pub(super) fn begin(&self) {
        self.parts.iter().for_each(|part| part.landing.begin(part.request));
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.parts.iter().any(|part| part.landing.is_open(part.request))
    }

    /// Writes bytes of the response to their destinations; false if all of these are closed.
    pub(super) fn put(&self, offset: u64, bytes: &[u8]) -> bool {
        let end = offset + bytes.len() as u64;
        let mut touched =
            self.parts.iter().filter(|part| part.from < end && offset < part.from + part.length).peekable();
        if touched.peek().is_none() {
            return self.is_wanted();
        }
        let mut wanted = false;
        for part in touched {
            let (low, high) = (part.from.max(offset), (part.from + part.length).min(end));
            let some = &bytes[(low - offset) as usize..(high - offset) as usize];
            wanted |= part.landing.put(part.request, low - part.from, some);
        }
        wanted || self.is_wanted()
    }

    /// Lets `read` fill the destination from `offset` of the response on (see `Landing::lend`).
    pub(super) fn lend(
        &self,
        offset: u64,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        let part = self.parts.partition_point(|part| part.from <= offset).checked_sub(1)?;
        let part = &self.parts[part];
        let left = (part.from + part.length).checked_sub(offset).filter(|left| *left > 0)?;
        part.landing.lend(part.request, offset - part.from, |out| {
            let most = out.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            read(&mut out[..most])
        })
    }

    /// All bytes have arrived.
    pub(super) fn finish(&self) -> Outcome {
        let landed = self.parts.iter().filter(|part| part.landing.close(part.request)).count();
        if landed == 0 { Outcome::Dropped } else { Outcome::Landed }
    }
}
