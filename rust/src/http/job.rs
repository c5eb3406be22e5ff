//! One request: what is asked for, and where the answer goes.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::{Landing, Outcome};

/// Bytes [from, from + length) of a job's answer are the answer to request `request` of `landing`.
#[derive(Debug)]
pub struct Part {
    /// Where they go.
    pub landing: Arc<Landing>,
    /// Which request of the landing.
    pub request: usize,
    /// Offset in the job's answer.
    pub from: u64,
    /// Bytes.
    pub length: u64,
}

/// One request: `length` bytes of an object from `start`.
#[derive(Debug)]
pub struct Job {
    /// What the caller calls it.
    pub ticket: u64,
    /// Where the object is; signed if need be.
    pub url: String,
    /// What tells this version of the object from others (see `head::versions`); empty if nothing does.
    pub version: String,
    /// Bytes of the whole object.
    pub size: u64,
    /// The first byte.
    pub start: u64,
    /// How many.
    pub length: u64,
    /// Whose they are, one behind the other.
    pub parts: Vec<Part>,
}

impl Job {
    pub(super) fn range(&self) -> Range<u64> {
        self.start..self.start + self.length
    }

    /// It is made now.
    pub(super) fn begin(&self) {
        self.parts.iter().for_each(|part| part.landing.begin(part.request));
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.parts.iter().any(|part| part.landing.is_open(part.request))
    }

    /// Writes bytes of the answer to where they belong; false if nobody wants any.
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

    /// Has `read` fill memory where the answer goes from `offset` on (see `Landing::lend`).
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

    /// All bytes are there.
    pub(super) fn finish(&self) -> Outcome {
        let landed = self.parts.iter().filter(|part| part.landing.close(part.request)).count();
        if landed == 0 { Outcome::Dropped } else { Outcome::Landed }
    }
}
