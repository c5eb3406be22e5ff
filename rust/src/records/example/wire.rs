//! The protocol buffer wire format (protobuf.dev/programming-guides/encoding), read in place: no copies, no recursion, every
//! length checked against what is left.

use super::fault::Fault;

/// A part of a buffer: bytes `start..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Part {
    /// First byte.
    pub start: usize,
    /// One after the last byte.
    pub end: usize,
}

impl Part {
    /// Number of bytes.
    #[inline]
    #[must_use]
    pub const fn len(self) -> usize {
        self.end - self.start
    }

    /// Whether there are no bytes.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// The tag of a length-delimited field.
#[must_use]
pub const fn block_tag(field: u64) -> u64 {
    field << 3 | 2
}

/// Reads one part of a buffer from front to back. `end` never exceeds the buffer.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Cursor<'a> {
    /// At the front of `part`, cut to the buffer.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8], part: Part) -> Self {
        let end = part.end.min(bytes.len());
        Self { bytes, at: part.start.min(end), end }
    }

    /// The place in the buffer.
    #[inline]
    #[must_use]
    pub const fn at(&self) -> usize {
        self.at
    }

    /// Whether everything was read.
    #[inline]
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.at >= self.end
    }

    /// What was not read yet.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> Part {
        Part { start: self.at, end: self.end }
    }

    /// A varint of at most ten bytes.
    ///
    /// # Errors
    /// If the part ends before the varint, or it is longer.
    #[inline(always)]
    pub fn varint(&mut self) -> Result<u64, Fault> {
        if self.at < self.end {
            let byte = self.bytes[self.at];
            if byte < 0x80 {
                self.at += 1;
                return Ok(u64::from(byte));
            }
        }
        self.long_varint()
    }

    /// A varint that is probably longer than one byte: up to eight bytes without a loop.
    ///
    /// # Errors
    /// As [`Cursor::varint`].
    #[inline(always)]
    pub fn long_varint(&mut self) -> Result<u64, Fault> {
        if let Some(word) = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk::<8>) {
            let word = u64::from_le_bytes(*word);
            let stops = !word & 0x8080_8080_8080_8080;
            if stops != 0 {
                let bits = stops.trailing_zeros() + 1;
                let next = self.at + (bits >> 3) as usize;
                if next <= self.end {
                    self.at = next;
                    return Ok(join_sevens(word & (u64::MAX >> (64 - bits))));
                }
            } else if let Some(&[ninth, tenth]) =
                self.bytes.get(self.at + 8..self.at + 10).and_then(<[u8]>::first_chunk)
                && (ninth < 0x80 || tenth < 0x80)
            {
                let next = self.at + if ninth < 0x80 { 9 } else { 10 };
                if next <= self.end {
                    self.at = next;
                    let high = u64::from(ninth & 0x7F) << 56;
                    let top = if ninth < 0x80 { 0 } else { u64::from(tenth) << 63 };
                    return Ok(join_sevens(word) | high | top);
                }
            }
        }
        self.slow_varint()
    }

    #[cold]
    fn slow_varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0;
        for (place, &byte) in self.bytes[self.at.min(self.end)..self.end].iter().take(10).enumerate() {
            // Of the tenth byte only the lowest bit counts, as in every reader of protocol buffers.
            value |= u64::from(byte & 0x7F) << (7 * place);
            if byte < 0x80 {
                self.at += place + 1;
                return Ok(value);
            }
        }
        let what = if self.end.saturating_sub(self.at) < 10 { "a number is cut off" } else { "a number is too long" };
        Err(Fault::Wire { at: self.at, what })
    }

    /// The part that a length-delimited field holds.
    ///
    /// # Errors
    /// If it is longer than what is left.
    #[inline(always)]
    pub fn block(&mut self) -> Result<Part, Fault> {
        let at = self.at;
        let length = self.varint()?;
        let start = self.at;
        if length > (self.end - start) as u64 {
            return Err(Fault::Wire { at, what: "a length points outside of what holds it" });
        }
        self.at = start + length as usize;
        Ok(Part { start, end: self.at })
    }

    /// Exactly `N` bytes.
    ///
    /// # Errors
    /// If fewer are left.
    #[inline]
    pub fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let chunk = self.bytes[self.at.min(self.end)..self.end].first_chunk::<N>();
        let value = *chunk.ok_or(Fault::Wire { at: self.at, what: "a value is cut off" })?;
        self.at += N;
        Ok(value)
    }

    /// Passes over the value of an unknown field whose tag was read.
    ///
    /// # Errors
    /// If the tag is not one, or the value is cut off.
    #[cold]
    pub fn skip(&mut self, tag: u64) -> Result<(), Fault> {
        // Groups (wire types 3 and 4) nest; counting them needs no stack.
        let mut depth = 0_u64;
        let mut tag = tag;
        loop {
            if tag >> 3 == 0 || tag >> 32 != 0 {
                return Err(Fault::Wire { at: self.at, what: "a field number that cannot be" });
            }
            match tag & 7 {
                0 => drop(self.varint()?),
                1 => drop(self.fixed::<8>()?),
                2 => drop(self.block()?),
                3 => depth += 1,
                4 if depth > 0 => depth -= 1,
                5 => drop(self.fixed::<4>()?),
                _ => return Err(Fault::Wire { at: self.at, what: "a wire type that does not exist" }),
            }
            if depth == 0 {
                return Ok(());
            }
            tag = self.varint()?;
        }
    }
}

/// Joins the low seven bits of eight bytes.
#[inline(always)]
const fn join_sevens(word: u64) -> u64 {
    let word = word & 0x7F7F_7F7F_7F7F_7F7F;
    let word = (word & 0x007F_007F_007F_007F) | (word & 0x7F00_7F00_7F00_7F00) >> 1;
    let word = (word & 0x0000_3FFF_0000_3FFF) | (word & 0x3FFF_0000_3FFF_0000) >> 2;
    (word & 0x0000_0000_0FFF_FFFF) | (word & 0x0FFF_FFFF_0000_0000) >> 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(mut value: u64, padding: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes.extend(std::iter::repeat_n(0xFF, padding));
        bytes
    }

    #[test]
    fn varints_of_every_length_are_read_at_the_end_and_inside() {
        for bits in 0..=64_u32 {
            for value in [1_u64.checked_shl(bits).unwrap_or(0), 1_u64.checked_shl(bits).unwrap_or(0).wrapping_sub(1)] {
                for padding in [0, 1, 20] {
                    let bytes = encode(value, padding);
                    let end = bytes.len() - padding;
                    for long in [false, true] {
                        let mut cursor = Cursor::new(&bytes, Part { start: 0, end });
                        let got = if long { cursor.long_varint() } else { cursor.varint() };
                        assert_eq!(got.unwrap(), value);
                        assert!(cursor.is_done());
                    }
                    let cut = Cursor::new(&bytes, Part { start: 0, end: end - 1 }).long_varint();
                    assert!(cut.is_err());
                }
            }
        }
    }

    #[test]
    fn deep_groups_are_skipped_without_recursion() {
        let mut bytes = vec![0x0B; 1 << 20];
        let all = Part { start: 1, end: bytes.len() };
        assert!(Cursor::new(&bytes, all).skip(0x0B).is_err());
        bytes.extend(vec![0x0C; 1 << 20]);
        let mut cursor = Cursor::new(&bytes, Part { start: 1, end: bytes.len() });
        cursor.skip(0x0B).unwrap();
        assert!(cursor.is_done());
    }
}
