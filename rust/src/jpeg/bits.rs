//! Bits of entropy-coded data (ITU T.81, F.2.2.5): 64 at a time, byte stuffing removed on the way.
#![allow(unsafe_code)] // One load of 8 bytes, in the innermost loop, whose place is checked by one comparison.

/// Reads bits of one scan, most significant first. Small and copied freely: the decoding loops keep it in registers.
///
/// At a marker or the end of the data it goes on with zero bits and counts them, so that no loop needs a check per
/// symbol: [`Bits::exhausted`] tells afterwards whether bits were used that the data does not have.
#[derive(Clone, Copy)]
pub(super) struct Bits<'a> {
    data: &'a [u8],
    /// Next byte to load.
    pos: usize,
    /// Below this place 8 bytes can be loaded at once.
    fast_end: usize,
    /// Unread bits, left-aligned; below the `count` highest there may be bits that will be loaded again.
    pub buffer: u64,
    /// Number of unread bits in the lowest 6 bits; above them there is rubbish (saves a mask per symbol).
    count: u32,
    /// Zero bits appended so far.
    padding: u32,
}

impl<'a> Bits<'a> {
    /// Starts at a byte of `data`, after its first `bit` bits.
    pub fn new(data: &'a [u8], pos: usize, bit: u32) -> Self {
        let mut bits = Self { data, pos, fast_end: data.len().saturating_sub(7), buffer: 0, count: 0, padding: 0 };
        bits.refill();
        bits.consume(bit);
        bits
    }

    /// Makes at least 56 bits available.
    #[inline(always)]
    pub fn refill(&mut self) {
        if self.pos < self.fast_end {
            // SAFETY: `fast_end` is at most `data.len() - 7`, so 8 bytes from `pos` on are inside `data`.
            let next = unsafe { self.data.as_ptr().add(self.pos).cast::<[u8; 8]>().read() };
            let next = u64::from_be_bytes(next);
            // The highest bit of every byte that is 0xFF (a byte 0xFE before one may be marked too: harmless).
            let stuffed = next & !next.wrapping_add(0x0101_0101_0101_0101) & 0x8080_8080_8080_8080;
            if stuffed.wrapping_shr(self.count | 7) == 0 {
                self.buffer |= next.wrapping_shr(self.count);
                self.pos += ((self.count >> 3 & 7) ^ 7) as usize;
                self.count = self.count & 7 | 56;
                return;
            }
        }
        // Numbers in and out, so that a `Bits` on the stack never has to be in memory.
        let (buffer, state) = refill_slowly(self.data, self.pos, self.buffer, self.count & 63);
        self.buffer = buffer;
        self.count = (state & 63) as u32;
        self.padding += (state >> 8 & 0xFF) as u32;
        self.pos = (state >> 16) as usize;
    }

    /// Drops `len` bits, which must be available. Only the lowest 6 bits of `len` count.
    #[inline(always)]
    pub fn consume(&mut self, len: u32) {
        self.buffer = self.buffer.wrapping_shl(len);
        self.count = self.count.wrapping_sub(len);
    }

    /// Whether bits were consumed that the data does not have.
    #[inline(always)]
    pub fn exhausted(&self) -> bool {
        self.padding > self.count & 63
    }

    /// Whether the data ended, rather than a marker having been met.
    pub fn at_end(&self) -> bool {
        self.pos >= self.data.len() || (self.pos + 1 == self.data.len() && self.data[self.pos] == 0xFF)
    }

    /// The next byte to load, for messages.
    pub fn offset(&self) -> usize {
        self.pos
    }

    /// Place of the next unread bit: byte in the data and bit in that byte (0 is the highest). `start` is the first
    /// byte of the segment. `None` if fill bytes inside the data make the way back ambiguous.
    pub fn place(&self, start: usize) -> Option<(usize, u32)> {
        let unread = (self.count & 63).checked_sub(self.padding)?;
        let mut pos = self.pos;
        for _ in 0..unread.div_ceil(8) {
            pos = pos.checked_sub(1).filter(|&pos| pos >= start)?;
            if pos > start && self.data[pos] == 0 && self.data[pos - 1] == 0xFF {
                pos -= 1;
                if pos > start && self.data[pos - 1] == 0xFF {
                    return None;
                }
            }
        }
        Some((pos, unread.wrapping_neg() & 7))
    }

    /// Goes behind the next restart marker, whatever its number; returns the number, or `None` if another marker or the
    /// end comes first.
    pub fn restart(&mut self) -> Option<u8> {
        // Loading never goes past a marker, so it lies ahead.
        let mut pos = self.pos;
        loop {
            pos += self.data.get(pos..)?.iter().position(|&byte| byte == 0xFF)?;
            match *self.data.get(pos + 1)? {
                0 => pos += 2,
                0xFF => pos += 1,
                marker @ 0xD0..=0xD7 => {
                    *self = Self::new(self.data, pos + 2, 0);
                    return Some(marker - 0xD0);
                }
                _ => return None,
            }
        }
    }
}

/// Loads byte by byte until at least 56 bits are there. Returns the buffer, and in one number the next place (from bit
/// 16), the zero bits appended (from bit 8) and the number of bits.
#[cold]
#[inline(never)]
fn refill_slowly(data: &[u8], mut pos: usize, mut buffer: u64, mut count: u32) -> (u64, u64) {
    let mut padding = 0;
    buffer &= !(u64::MAX >> count);
    while count < 56 {
        let byte = match data.get(pos) {
            Some(&byte) if byte != 0xFF => {
                pos += 1;
                byte
            }
            Some(_) if data.get(pos + 1) == Some(&0) => {
                pos += 2;
                0xFF
            }
            // Fill bytes before a stuffed zero: libjpeg reads the run as one 0xFF.
            Some(_) if data.get(pos + 1) == Some(&0xFF) => {
                pos += 1;
                continue;
            }
            _ => {
                padding += 8;
                0
            }
        };
        buffer |= u64::from(byte) << (56 - count);
        count += 8;
    }
    (buffer, (pos as u64) << 16 | padding << 8 | u64::from(count))
}
