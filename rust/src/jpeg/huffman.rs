//! Huffman tables (ITU T.81, Annex C and F.2.2.3) as lookup tables that give code, run and size at once.

use super::JpegError;

/// Bits of the first lookup. A code of at most so many bits and its value bits (15 at most) are 27 bits, so two
/// of them fit in what one refill guarantees (56 bits).
pub(super) const LOOKUP_BITS: u32 = 11;

/// Set in entries that the fast loop cannot finish by itself: end of block, 16 zeros, long or invalid codes.
pub(super) const SPECIAL: u32 = 1 << 31;
/// Set in special entries that end the block.
pub(super) const END_OF_BLOCK: u32 = 1 << 30;

/// A table as the file gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HuffmanSpec {
    /// Number of codes of each length 1..=16.
    counts: [u8; 16],
    /// Symbols in order of their codes; unused ones are 0.
    symbols: [u8; 256],
}

/// A table ready for decoding. An entry of `lookup`, by the next `LOOKUP_BITS` bits:
/// bits 0..6 length of code and value together, 8..14 length of the code, 16..22 64 minus the size of the value (modulo
/// 64), 24..29 coefficients that the symbol advances (run + 1; DC: unused). Zero-length entries are long or invalid codes.
#[derive(Clone)]
pub(super) struct HuffmanTable {
    pub lookup: Box<[u32; 1 << LOOKUP_BITS]>,
    /// For passing over AC symbols, two at a time where both fit: bits 0..6 bits to drop, 8.. coefficients to advance;
    /// 0 where `lookup` has to be asked (ends of blocks, long codes).
    pub skips: Box<[u16; 1 << LOOKUP_BITS]>,
    /// Per length: the first 16-bit left-aligned code that is longer; 0x10000 and more for the last.
    limits: [u32; 17],
    /// Per length: index of its first symbol minus its first code.
    offsets: [i32; 17],
    spec: HuffmanSpec,
    ac: bool,
}

impl HuffmanSpec {
    /// Reads 16 counts and their symbols; returns the bytes taken too. `offset` is for messages.
    pub(super) fn parse(bytes: &[u8], offset: usize) -> Result<(Self, usize), JpegError> {
        let truncated = JpegError::Truncated { offset: offset + bytes.len(), what: "a Huffman table" };
        let counts: [u8; 16] = bytes.get(..16).and_then(|c| c.try_into().ok()).ok_or(truncated.clone())?;
        let total: usize = counts.iter().map(|&c| usize::from(c)).sum();
        if total > 256 {
            return Err(JpegError::Corrupt { offset, what: "at most 256 Huffman codes", found: total as u32 });
        }
        let mut code = 0u32;
        for (i, &count) in counts.iter().enumerate() {
            code += u32::from(count);
            if code > 1 << (i + 1) {
                return Err(JpegError::Corrupt {
                    offset: offset + i,
                    what: "more Huffman codes than bits allow",
                    found: code,
                });
            }
            code <<= 1;
        }
        let mut symbols = [0u8; 256];
        symbols[..total].copy_from_slice(bytes.get(16..16 + total).ok_or(truncated)?);
        Ok((Self { counts, symbols }, 16 + total))
    }
}

impl HuffmanTable {
    /// Builds the lookup table. For DC tables a symbol is a size; for AC tables run and size.
    pub fn new(spec: &HuffmanSpec, ac: bool) -> Self {
        let mut lookup = Box::new([SPECIAL; 1 << LOOKUP_BITS]);
        let (mut limits, mut offsets) = ([0u32; 17], [0i32; 17]);
        let (mut code, mut index) = (0u32, 0usize);
        for length in 1..=16u32 {
            let count = usize::from(spec.counts[length as usize - 1]);
            offsets[length as usize] = index as i32 - code as i32;
            for _ in 0..count {
                if length <= LOOKUP_BITS {
                    let shift = LOOKUP_BITS - length;
                    let first = (code << shift) as usize;
                    lookup[first..first + (1 << shift)].fill(entry(spec.symbols[index], length, ac));
                }
                code += 1;
                index += 1;
            }
            limits[length as usize] = code << (16 - length);
            code <<= 1;
        }
        let skips = if ac { skips(&lookup) } else { Box::new([0; 1 << LOOKUP_BITS]) };
        Self { lookup, skips, limits, offsets, spec: spec.clone(), ac }
    }

    /// Whether the table was made of `spec`.
    pub fn is_of(&self, spec: &HuffmanSpec) -> bool {
        self.spec == *spec
    }

    /// The entry of a code longer than `LOOKUP_BITS`, given the next 16 bits; `None` if there is no such code.
    #[cold]
    #[inline(never)]
    pub fn long_entry(&self, next16: u32) -> Option<u32> {
        let length = (LOOKUP_BITS + 1..=16).find(|&length| next16 < self.limits[length as usize])?;
        let index = (next16 >> (16 - length)) as i32 + self.offsets[length as usize];
        Some(entry(self.spec.symbols[(index & 255) as usize], length, self.ac))
    }
}

/// The table for passing over symbols.
fn skips(lookup: &[u32; 1 << LOOKUP_BITS]) -> Box<[u16; 1 << LOOKUP_BITS]> {
    let mut skips = Box::new([0; 1 << LOOKUP_BITS]);
    for (index, skip) in skips.iter_mut().enumerate() {
        let first = lookup[index];
        if first & SPECIAL != 0 {
            continue;
        }
        let (bits, advance) = (first & 63, first >> 24);
        *skip = (bits | advance << 8) as u16;
        if bits < LOOKUP_BITS {
            // What follows the first symbol, as far as the index shows it.
            let second = lookup[(index << bits) & ((1 << LOOKUP_BITS) - 1)];
            if second & SPECIAL == 0 && bits + (second & 63) <= LOOKUP_BITS {
                *skip = ((bits + (second & 63)) | (advance + (second >> 24)) << 8) as u16;
            }
        }
    }
    skips
}

fn entry(symbol: u8, length: u32, ac: bool) -> u32 {
    let (run, size) = (u32::from(symbol >> 4), u32::from(symbol & 15));
    let base = (length + size) | length << 8 | ((64 - size) % 64) << 16;
    match (ac, run, size) {
        // A DC size above 15 would be 16-bit lossless data; libjpeg refuses those tables, here they are invalid codes.
        (false, 1.., _) => SPECIAL,
        (false, ..) => base,
        (true, 15, 0) => base | 16 << 24 | SPECIAL,
        (true, _, 0) => base | END_OF_BLOCK | SPECIAL,
        (true, ..) => base | (run + 1) << 24,
    }
}
