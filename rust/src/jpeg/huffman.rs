//! Huffman tables (ITU T.81, Annex C and F.2.2.3) as lookup tables that give code, run and size at once.

use super::JpegError;

/// Bits of the first lookup. Five entries that are finished there drop at most 55 of the 56 bits that one refill guarantees, and
/// behind four of them there are enough for a lookup.
pub(super) const LOOKUP_BITS: u32 = 11;
pub(super) const LOOKUPS_PER_REFILL: usize = 5;

/// Set in entries that the fast loop cannot finish by itself: end of block, long codes and values, invalid codes.
pub(super) const SPECIAL: u32 = 1 << 6;
/// Set in special entries that end the block.
pub(super) const END_OF_BLOCK: u32 = 1 << 7;

/// Bits of the lookup of two symbols.
pub(super) const PAIR_BITS: u32 = 10;
/// Set in entries of `pairs` without a symbol.
pub(super) const NOT_SHOWN: u64 = 1 << 6;
/// Set in entries of `pairs` that end the block behind their symbols.
pub(super) const BLOCK_ENDS: u64 = 1 << 7;

/// A table as the file gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HuffmanSpec {
    /// Number of codes of each length 1..=16.
    counts: [u8; 16],
    /// Symbols in order of their codes; unused ones are 0.
    symbols: [u8; 256],
}

/// A table ready for decoding. An entry of `lookup`, by the next `LOOKUP_BITS` bits:
/// bits 0..6 length of code and value together, 8..16 coefficients that the symbol advances (run + 1; DC: unused). Of AC symbols
/// that are not special, bits 16..32 are the value itself. Of the others, and of all DC symbols, bits 16..22 are the length of
/// the code and 24..30 are 64 minus the size of the value (modulo 64). Entries of length zero are long or invalid codes.
#[derive(Clone)]
pub(super) struct HuffmanTable {
    pub lookup: Box<[u32; 1 << LOOKUP_BITS]>,
    /// AC symbols two at a time: bits 0..6 bits to drop, 8..16 coefficients that the first advances, 16..32 its value, 32..48 the
    /// value of the second, 48.. coefficients that both advance; where only one shows, it is the second too. `BLOCK_ENDS` is set
    /// where an end of block follows, `NOT_SHOWN` where `lookup` has to be asked.
    pub pairs: Box<[u64; 1 << PAIR_BITS]>,
    /// For passing over AC symbols, as many at a time as show: bits 0..6 bits to drop, bit 7 set where the last is the end of
    /// the block, 8.. coefficients to advance; 0 where `lookup` has to be asked.
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
                    let part = &mut lookup[first..first + (1 << shift)];
                    part.fill(entry(spec.symbols[index], length, ac));
                    if ac {
                        store_values(part, shift, spec.symbols[index], length);
                    }
                }
                code += 1;
                index += 1;
            }
            limits[length as usize] = code << (16 - length);
            code <<= 1;
        }
        let skips = if ac { skips(&lookup) } else { Box::new([0; 1 << LOOKUP_BITS]) };
        let pairs = if ac { pairs(&lookup) } else { Box::new([0; 1 << PAIR_BITS]) };
        Self { lookup, skips, pairs, limits, offsets, spec: spec.clone(), ac }
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

/// Replaces the entries of an AC symbol, which differ in the `shift` bits behind its code, by finished ones where they show the
/// whole value. A run of 16 zeros has the value 0.
fn store_values(part: &mut [u32], shift: u32, symbol: u8, length: u32) {
    let (run, size) = (u32::from(symbol >> 4), u32::from(symbol & 15));
    if size > shift || (size == 0 && run < 15) {
        return;
    }
    for (bits, entries) in (0i32..).zip(part.chunks_exact_mut(1 << (shift - size))) {
        // T.81, figure F.12.
        let value = if size > 0 && bits >> (size - 1) == 0 { bits + 1 - (1 << size) } else { bits };
        entries.fill((length + size) | (run + 1) << 8 | (value as u32) << 16);
    }
}

/// The table of two symbols.
fn pairs(lookup: &[u32; 1 << LOOKUP_BITS]) -> Box<[u64; 1 << PAIR_BITS]> {
    let mut pairs = Box::new([NOT_SHOWN; 1 << PAIR_BITS]);
    for (index, pair) in pairs.iter_mut().enumerate() {
        // What follows `bits` bits, as far as the index shows it.
        let shown = |bits: u32| {
            let next = lookup[(index << (LOOKUP_BITS - PAIR_BITS + bits)) & ((1 << LOOKUP_BITS) - 1)];
            (bits + (next & 63) <= PAIR_BITS && next & 63 > 0).then_some(next)
        };
        let Some(first) = shown(0).filter(|first| first & SPECIAL == 0) else { continue };
        let (mut bits, mut advance, mut second) = (first & 63, first >> 8 & 255, first >> 16);
        if let Some(next) = shown(bits).filter(|next| next & SPECIAL == 0) {
            (bits, advance, second) = (bits + (next & 63), advance + (next >> 8 & 255), next >> 16);
        }
        *pair = u64::from(first >> 8) << 8 | u64::from(second) << 32 | u64::from(advance) << 48;
        if let Some(end) = shown(bits).filter(|next| next & END_OF_BLOCK != 0) {
            *pair |= BLOCK_ENDS;
            bits += end & 63;
        }
        *pair |= u64::from(bits);
    }
    pairs
}

/// The table for passing over symbols.
fn skips(lookup: &[u32; 1 << LOOKUP_BITS]) -> Box<[u16; 1 << LOOKUP_BITS]> {
    let mut skips = Box::new([0; 1 << LOOKUP_BITS]);
    for (index, skip) in skips.iter_mut().enumerate() {
        let (mut bits, mut advance, mut end) = (0, 0, 0);
        while bits < LOOKUP_BITS && end == 0 {
            // What follows, as far as the index shows it.
            let next = lookup[(index << bits) & ((1 << LOOKUP_BITS) - 1)];
            let is_shown = next & (SPECIAL | END_OF_BLOCK) != SPECIAL && bits + (next & 63) <= LOOKUP_BITS;
            if !is_shown || advance + (next >> 8 & 255) > 62 {
                break;
            }
            bits += next & 63;
            advance += next >> 8 & 255;
            end = next & END_OF_BLOCK;
        }
        *skip = (bits | end | advance << 8) as u16;
    }
    skips
}

/// An entry without a value.
fn entry(symbol: u8, length: u32, ac: bool) -> u32 {
    let (run, size) = (u32::from(symbol >> 4), u32::from(symbol & 15));
    let base = (length + size) | length << 16 | ((64 - size) % 64) << 24;
    match (ac, run, size) {
        // A DC size above 15 would be 16-bit lossless data; libjpeg refuses those tables, here they are invalid codes.
        (false, 1.., _) => SPECIAL,
        (false, ..) => base,
        (true, ..15, 0) => base | END_OF_BLOCK | SPECIAL,
        (true, ..) => base | (run + 1) << 8 | SPECIAL,
    }
}
