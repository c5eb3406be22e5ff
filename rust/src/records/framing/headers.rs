//! Headers of `N` bytes, read one after the other: those of short records with their neighbours, that of a long one's successor alone.

use crate::core::errors::Trouble;

/// After a record longer than this, only the next header is read; shorter ones are read with their neighbours.
const HOP_BYTES: u64 = 64 << 10;
/// Bytes of one read where records are short.
const READ_BYTES: usize = 256 << 10;

/// The headers of `size` bytes that `read(at, buffer)` gives access to. Memory is bounded, whatever the headers say.
pub struct Headers<const N: usize, R> {
    size: u64,
    read: R,
    buffer: Vec<u8>,
    start: u64,
    held: usize,
}

impl<const N: usize, R: FnMut(u64, &mut [u8]) -> Result<(), Trouble>> Headers<N, R> {
    pub fn new(size: u64, read: R) -> Self {
        let buffer = vec![0; READ_BYTES.min(usize::try_from(size).unwrap_or(READ_BYTES))];
        Self { size, read, buffer, start: 0, held: 0 }
    }

    /// The header at a byte, all of which is there; `previous`: how long what came before it was.
    #[inline]
    pub fn at(&mut self, at: u64, previous: u64) -> Result<[u8; N], Trouble> {
        if at + N as u64 > self.start + self.held as u64 {
            let wanted = if previous > HOP_BYTES { N } else { self.buffer.len() };
            self.held = wanted.min(usize::try_from(self.size - at).unwrap_or(wanted));
            self.start = at;
            (self.read)(at, &mut self.buffer[..self.held])?;
        }
        let place = (at - self.start) as usize;
        let mut header = [0; N];
        header.copy_from_slice(&self.buffer[place..place + N]);
        Ok(header)
    }
}
