//! The header before each part of a RecordIO record: magic, place in the record, length.

/// Begins every part.
pub const MAGIC: u32 = 0xCED7_230A;
/// Bytes before a part's data.
pub const HEADER_BYTES: usize = 8;

/// Where a part stands in its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// It is the whole record.
    Whole,
    /// It is the first of several.
    First,
    /// It is neither the first nor the last.
    Middle,
    /// It is the last of several.
    Last,
}

impl Part {
    /// Whether a record ends with this part.
    #[must_use]
    pub fn ends(self) -> bool {
        matches!(self, Self::Whole | Self::Last)
    }

    /// Whether this part can follow what is open so far.
    #[must_use]
    pub fn fits(self, inside: bool) -> bool {
        matches!(self, Self::Middle | Self::Last) == inside
    }
}

/// The part and the length of the data that follow a header; None without the magic number, or with an unknown flag.
#[inline]
#[must_use]
pub fn part(header: [u8; HEADER_BYTES]) -> Option<(Part, u64)> {
    let [a, b, c, d, e, f, g, h] = header;
    if u32::from_le_bytes([a, b, c, d]) != MAGIC {
        return None;
    }
    let word = u32::from_le_bytes([e, f, g, h]);
    let kind = match word >> 29 {
        0 => Part::Whole,
        1 => Part::First,
        2 => Part::Middle,
        3 => Part::Last,
        _ => return None,
    };
    Some((kind, u64::from(word & 0x1FFF_FFFF)))
}

/// Bytes of a part in the file: header, data, padding.
#[inline]
#[must_use]
pub fn part_bytes(length: u64) -> u64 {
    HEADER_BYTES as u64 + length.next_multiple_of(4)
}
