//! Bits of entropy-coded data (ITU T.81, F.2.2.5): 64 at a time, byte stuffing removed on the way.

/// Reads bits of one scan, most significant first. Small and copied freely: the decoding loops keep it in registers.
///
/// At a marker or the end of the data it goes on with zero bits and counts them, so that no loop needs a check per
/// symbol: [`Bits::exhausted`] tells afterwards whether bits were used that the data does not have.
#[derive(Clone, Copy)]
pub(super) struct Bits<'a> {
    data: &'a [u8],
    /// Next byte to load.
    pos: usize,
    /// Unread bits, left-aligned; below the `count` highest there may be bits that will be loaded again.
    pub buffer: u64,
    /// Number of unread bits, at most 63.
    pub count: u32,
    /// Zero bits appended so far.
    padding: u32,
}

impl<'a> Bits<'a> {
    /// Starts at a byte of `data`, after its first `bit` bits.
    pub fn new(data: &'a [u8], pos: usize, bit: u32) -> Self {
        let mut bits = Self { data, pos, buffer: 0, count: 0, padding: 0 };
        bits.refill();
        bits.consume(bit);
        bits
    }

    /// Makes at least 56 bits available.
    #[inline(always)]
    pub fn refill(&mut self) {
        if let Some(next) = self.data.get(self.pos..).and_then(|rest| rest.first_chunk::<8>()) {
            let next = u64::from_be_bytes(*next);
            // The highest bit of every byte that is 0xFF (a byte 0xFE before one may be marked too: harmless).
            let stuffed = next & !next.wrapping_add(0x0101_0101_0101_0101) & 0x8080_8080_8080_8080;
            if stuffed >> (self.count | 7) == 0 {
                self.buffer |= next >> self.count;
                self.pos += ((63 - self.count) >> 3) as usize;
                self.count |= 56;
                return;
            }
        }
        *self = self.refill_slowly();
    }

    #[cold]
    #[inline(never)]
    fn refill_slowly(mut self) -> Self {
        if self.count == 0 {
            self.buffer = 0;
        } else {
            self.buffer &= u64::MAX << (64 - self.count);
        }
        while self.count < 56 {
            let byte = match self.data.get(self.pos) {
                Some(&byte) if byte != 0xFF => {
                    self.pos += 1;
                    byte
                }
                Some(_) if self.data.get(self.pos + 1) == Some(&0) => {
                    self.pos += 2;
                    0xFF
                }
                // Fill bytes before a stuffed zero: libjpeg reads the run as one 0xFF.
                Some(_) if self.data.get(self.pos + 1) == Some(&0xFF) => {
                    self.pos += 1;
                    continue;
                }
                _ => {
                    self.padding += 8;
                    0
                }
            };
            self.buffer |= u64::from(byte) << (56 - self.count);
            self.count += 8;
        }
        self
    }

    /// Drops `len` bits, which must be available (`len` is taken modulo 64).
    #[inline(always)]
    pub fn consume(&mut self, len: u32) {
        self.buffer = self.buffer.wrapping_shl(len);
        self.count = self.count.wrapping_sub(len & 63);
    }

    /// Whether bits were consumed that the data does not have.
    #[inline(always)]
    pub fn exhausted(&self) -> bool {
        self.padding > self.count
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
        let unread = self.count.checked_sub(self.padding)?;
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
