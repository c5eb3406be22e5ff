//! Huffman tables (ITU T.81, Annex C and F.2.2.3) as lookup tables that give code, run and size at once.

use std::cell::OnceCell;

use super::JpegError;

/// Bits of the lookup of one symbol.
pub(super) const LOOKUP_BITS: u32 = 11;

/// Set in entries that end the block.
pub(super) const END_OF_BLOCK: u32 = 1 << 7;

/// Bits of the lookup of two symbols.
pub(super) const PAIR_BITS: u32 = 10;
/// Set in entries of `pairs` without a symbol.
pub(super) const NOT_SHOWN: u64 = 1 << 6;
/// Set in entries of `pairs` that end the block, behind their symbols if they have any.
pub(super) const BLOCK_ENDS: u64 = 1 << 7;

/// Bits of the lookup that passes over symbols.
pub(super) const SKIP_BITS: u32 = 12;

/// Most bits that an entry of `pairs` or `skips` drops: three of them use at most 54 of the 56 bits that a refill guarantees.
const MOST_BITS: u32 = 18;
pub(super) const LOOKUPS_PER_REFILL: usize = 3;

/// For passing over AC symbols, as many at a time as the next `SKIP_BITS` bits show: bits 0..6 bits to drop, bit 7 set where the last
/// is the end of the block, 8.. coefficients to advance; 0 where `lookup` has to be asked.
pub(super) type Skips = [u16; 1 << SKIP_BITS];

/// A table as the file gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HuffmanSpec {
    /// Number of codes of each length 1..=16.
    counts: [u8; 16],
    /// Symbols in order of their codes; unused ones are 0.
    symbols: [u8; 256],
}

/// A table ready for decoding. An entry of `lookup`, by the next `LOOKUP_BITS` bits:
/// bits 0..6 length of code and value together, 8..16 coefficients that the symbol advances (run + 1; DC: unused), 16..22 the length
/// of the code, 24..30 63 minus the size of the value. Entries of 0 are long or invalid codes.
#[derive(Clone)]
pub(super) struct HuffmanTable {
    pub lookup: Box<[u32; 1 << LOOKUP_BITS]>,
    /// AC symbols two at a time: bits 0..6 bits to drop, 8..16 coefficients that the first advances, 16..32 its value; 32..38 bits
    /// before the value of the second, 40..46 63 minus the size of that value, which may lie behind the bits of the lookup, 48..
    /// coefficients that both advance. Where only one shows, it is the second, and its place that of the first too. `BLOCK_ENDS` is
    /// set where an end of block follows; with `NOT_SHOWN`, where nothing else shows. With `NOT_SHOWN` alone, `lookup` has to be asked.
    pub pairs: Box<[u64; 1 << PAIR_BITS]>,
    skips: OnceCell<Box<Skips>>,
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
        let mut lookup = Box::new([0; 1 << LOOKUP_BITS]);
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
        let mut pairs = Box::new([NOT_SHOWN; 1 << PAIR_BITS]);
        if ac {
            let codes = Codes(&lookup);
            pairs.iter_mut().zip(0..).for_each(|(pair, index)| *pair = codes.pair(index));
        }
        Self { lookup, pairs, skips: OnceCell::new(), limits, offsets, spec: spec.clone(), ac }
    }

    /// The table for passing over AC symbols; made on first use, since where everything is needed it never is.
    pub fn skips(&self) -> &Skips {
        self.skips.get_or_init(|| {
            let mut skips = Box::new([0; 1 << SKIP_BITS]);
            skips.iter_mut().zip(0..).for_each(|(skip, index)| *skip = Codes(&self.lookup).skip(index));
            skips
        })
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
        Some(entry(self.spec.symbols[(index & 255) as usize], length, self.ac)).filter(|&entry| entry != 0)
    }
}

/// Bits of an entry's code and value together.
const fn bits_of(entry: u32) -> u32 {
    entry & 63
}

/// Bits of an entry's code.
const fn code_bits_of(entry: u32) -> u32 {
    entry >> 16 & 63
}

/// Coefficients that an entry advances; none where a block ends.
const fn advance_of(entry: u32) -> u32 {
    entry >> 8 & 255
}

/// The value of an entry (T.81, figure F.12), given the bits that end with it.
const fn value_of(entry: u32, bits: u32) -> i32 {
    let size = 63 - (entry >> 24 & 63);
    let value = (bits & ((1 << size) - 1)) as i32;
    if size > 0 && value >> (size - 1) == 0 { value + 1 - (1 << size) } else { value }
}

/// The entries of an AC table, by `LOOKUP_BITS` bits.
struct Codes<'a>(&'a [u32; 1 << LOOKUP_BITS]);

impl Codes<'_> {
    /// The entry of the code behind the first `bits` of the `width` bits `index`, as far as they show it.
    fn shown(&self, index: u32, bits: u32, width: u32) -> Option<u32> {
        let rest = index << bits & ((1 << width) - 1);
        let entry = self.0[(rest << LOOKUP_BITS >> width) as usize];
        (bits_of(entry) > 0 && bits + code_bits_of(entry) <= width).then_some(entry)
    }

    /// An entry of `pairs`.
    fn pair(&self, index: u32) -> u64 {
        let shown = |bits| self.shown(index, bits, PAIR_BITS);
        let is_end = |entry: &u32| entry & END_OF_BLOCK != 0;
        let Some(first) = shown(0) else { return NOT_SHOWN };
        if is_end(&first) {
            return NOT_SHOWN | BLOCK_ENDS | u64::from(bits_of(first));
        }
        let (mut last, mut before, mut advance, mut value) = (first, 0, advance_of(first), 0);
        let fits = |entry: &u32| bits_of(first) + bits_of(*entry) <= MOST_BITS;
        if let Some(second) = shown(bits_of(first)).filter(|entry| !is_end(entry) && fits(entry)) {
            value = value_of(first, index >> (PAIR_BITS - bits_of(first))) as u16;
            (last, before, advance) = (second, bits_of(first), advance + advance_of(second));
        }
        let mut bits = before + bits_of(last);
        if bits > MOST_BITS {
            return NOT_SHOWN;
        }
        let mut pair = u64::from(advance_of(first)) << 8 | u64::from(value) << 16 | u64::from(advance) << 48;
        pair |= u64::from(before + code_bits_of(last)) << 32 | u64::from(last >> 24 & 63) << 40;
        if let Some(end) = shown(bits).filter(is_end) {
            pair |= BLOCK_ENDS;
            bits += bits_of(end);
        }
        pair | u64::from(bits)
    }

    /// An entry of `skips`.
    fn skip(&self, index: u32) -> u16 {
        let (mut bits, mut advance, mut end) = (0, 0, 0);
        while let Some(next) = self.shown(index, bits, SKIP_BITS).filter(|_| end == 0) {
            if bits + bits_of(next) > MOST_BITS || advance + advance_of(next) > 62 {
                break;
            }
            (bits, advance, end) = (bits + bits_of(next), advance + advance_of(next), next & END_OF_BLOCK);
        }
        (bits | end | advance << 8) as u16
    }
}

/// An entry of `lookup`.
fn entry(symbol: u8, length: u32, ac: bool) -> u32 {
    let (run, size) = (u32::from(symbol >> 4), u32::from(symbol & 15));
    let base = (length + size) | length << 16 | (63 - size) << 24;
    match (ac, run, size) {
        // A DC size above 15 would be 16-bit lossless data; libjpeg refuses those tables, here they are invalid codes.
        (false, 1.., _) => 0,
        (false, ..) => base,
        (true, ..15, 0) => base | END_OF_BLOCK,
        (true, ..) => base | (run + 1) << 8,
    }
}
