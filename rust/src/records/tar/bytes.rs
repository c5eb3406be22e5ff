//! Where the bytes of an archive come from.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::core::errors::Trouble;

/// Where the bytes of an archive come from.
pub trait Bytes {
    /// How many there are.
    fn size(&self) -> u64;

    /// `length` bytes from `at` on, which lie within `size`; few enough to hold.
    ///
    /// # Errors
    /// If they cannot be read.
    fn get(&mut self, at: u64, length: usize) -> Result<&[u8], Trouble>;
}

impl Bytes for &[u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn get(&mut self, at: u64, length: usize) -> Result<&[u8], Trouble> {
        Ok(&self[at as usize..at as usize + length])
    }
}

/// A file, read ahead where members are short and hopped over where they are long.
pub struct FileBytes {
    file: File,
    size: u64,
    start: u64,
    held: Vec<u8>,
}

/// After a gap of this size only a little is read, since the next gap will be as long.
const HOP_BYTES: u64 = 32 << 10;
/// Bytes of a read after a long gap: a header, a short member and the next header.
const LITTLE_BYTES: usize = 2 << 10;
/// Bytes of a read where members are short.
const READ_BYTES: usize = 256 << 10;

impl FileBytes {
    /// The first `size` bytes of a file.
    #[must_use]
    pub fn new(file: File, size: u64) -> Self {
        Self { file, size, start: 0, held: Vec::new() }
    }
}

impl Bytes for FileBytes {
    fn size(&self) -> u64 {
        self.size
    }

    fn get(&mut self, at: u64, length: usize) -> Result<&[u8], Trouble> {
        let end = self.start + self.held.len() as u64;
        if at < self.start || at + length as u64 > end {
            let wanted = if at > end + HOP_BYTES { LITTLE_BYTES } else { READ_BYTES }.max(length);
            let rest = usize::try_from(self.size - at).unwrap_or(wanted);
            self.held.resize(wanted.min(rest), 0);
            self.start = at;
            self.file.read_exact_at(&mut self.held, at)?;
        }
        let first = (at - self.start) as usize;
        Ok(&self.held[first..first + length])
    }
}
