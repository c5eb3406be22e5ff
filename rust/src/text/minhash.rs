//! MinHash (Broder 1997): how alike texts are, by few numbers of each. A text is the set of its shingles, some neighbouring words each; its signature has the least of
//! their hashes by each of some functions, and two texts agree in one with the odds of their Jaccard similarity. Bands of a signature are looked up as a whole.

use std::sync::LazyLock;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::characters::Classes;
use super::minima::lower;
use super::simplify::{Ascii, ascii_words, simplify};
use super::words::{Splitter, Word};

/// How texts are compared.
pub struct MinHash {
    shingle: usize,
    bands: usize,
    multipliers: Vec<u32>,
    offsets: Vec<u32>,
}

/// What a thread works with.
#[derive(Default)]
pub struct Scratch {
    splitter: Splitter,
    words: Vec<Word>,
    text: String,
    ascii: Ascii,
    hashes: Vec<u64>,
    shingles: Vec<u32>,
    least: Vec<u32>,
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl MinHash {
    /// Shingles of `shingle` words; `bands` of `hashes_per_band` functions each, which `seed` chooses.
    #[must_use]
    pub fn new(shingle: usize, bands: usize, hashes_per_band: usize, seed: u64) -> Self {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(STEP);
            (mixed(state) >> 32) as u32
        };
        let (multipliers, offsets) = (0..bands * hashes_per_band).map(|_| (next() | 1, next())).unzip();
        Self { shingle: shingle.max(1), bands: bands.max(1), multipliers, offsets }
    }

    /// A number for each band of a text's signature: texts that agree in all of a band have the same. Texts of fewer words than a shingle has are one shingle.
    pub fn bands(&self, text: &str, scratch: &mut Scratch, out: &mut Vec<u64>) {
        self.shingles(text, scratch);
        scratch.least.clear();
        scratch.least.resize(self.multipliers.len(), u32::MAX);
        lower(&scratch.shingles, &self.multipliers, &self.offsets, &mut scratch.least);
        let each = (self.multipliers.len() / self.bands).max(1);
        let mut bytes = Vec::with_capacity(4 * each);
        for (number, band) in (0..).zip(scratch.least.chunks(each)) {
            bytes.clear();
            bytes.extend(band.iter().flat_map(|one| one.to_le_bytes()));
            out.push(xxh3_64_with_seed(&bytes, number));
        }
    }

    /// The hashes of a text's shingles.
    fn shingles(&self, text: &str, scratch: &mut Scratch) {
        scratch.hashes.clear();
        scratch.shingles.clear();
        for (part, is_ascii) in Parts(text) {
            if is_ascii {
                hash_ascii(part, scratch);
            } else {
                simplify(part, Classes::get(), &mut scratch.text);
                scratch.splitter.split(&scratch.text, &mut scratch.words, false);
                scratch.hashes.extend(scratch.words.iter().map(|word| hash(word.of(&scratch.text).as_bytes())));
            }
        }
        let oldest = STEP.wrapping_pow(self.shingle as u32);
        let mut rolled = 0_u64;
        for (number, &one) in scratch.hashes.iter().enumerate() {
            rolled = rolled.wrapping_mul(STEP).wrapping_add(one);
            if number >= self.shingle {
                rolled = rolled.wrapping_sub(scratch.hashes[number - self.shingle].wrapping_mul(oldest));
            }
            if number + 1 >= self.shingle {
                scratch.shingles.push((mixed(rolled) >> 32) as u32);
            }
        }
        if scratch.hashes.len() < self.shingle {
            scratch.shingles.push((mixed(rolled) >> 32) as u32);
        }
    }
}

/// What is left of a text, as parts of ASCII and parts of words with other letters, cut at spaces and line ends: no word, number or letter that is simplified lies across these.
struct Parts<'a>(&'a str);

impl<'a> Iterator for Parts<'a> {
    type Item = (&'a str, bool);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.0.as_bytes();
        if bytes.is_empty() {
            return None;
        }
        let other = first_wide(bytes).unwrap_or(bytes.len());
        let gap = bytes[..other].iter().rposition(is_gap).map_or(0, |at| at + 1);
        let (end, is_ascii) = match (other == bytes.len(), gap) {
            (true, _) => (other, true),
            (false, 1..) => (gap, true),
            (false, 0) => (behind_wide(bytes, other), false),
        };
        let (part, rest) = self.0.split_at(end);
        self.0 = rest;
        Some((part, is_ascii))
    }
}

fn is_gap(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\n')
}

/// The first byte that is not ASCII.
fn first_wide(bytes: &[u8]) -> Option<usize> {
    let passed = bytes.chunks(32).take_while(|block| block.is_ascii()).count() * 32;
    bytes.get(passed..)?.iter().position(|byte| !byte.is_ascii()).map(|at| passed + at)
}

/// Where words with other letters end that stand side by side, of which one has its first such byte at `at`.
fn behind_wide(bytes: &[u8], mut at: usize) -> usize {
    loop {
        let Some(gap) = bytes[at..].iter().position(is_gap) else { return bytes.len() };
        at += gap + 1;
        let next = bytes[at..].iter().position(|byte| is_gap(byte) || !byte.is_ascii());
        match next.map(|next| at + next) {
            Some(next) if !bytes[next].is_ascii() => at = next,
            _ => return at,
        }
    }
}

/// The hashes of an ASCII text's words, in one pass: these are runs of letters and digits, which none but an exception and what has both takes apart.
fn hash_ascii(text: &str, scratch: &mut Scratch) {
    let Scratch { splitter, words, ascii, hashes, .. } = scratch;
    ascii_words(text.as_bytes(), ascii, |word, block, has_number| {
        let hashed = if word.len() < 16 { short(block, word.len()) } else { xxh3_64(word) };
        if (!has_number || word.len() == 1) && (!EXCEPTIONS.may_have(hashed) || splitter.is_whole(word)) {
            hashes.push(hashed);
        } else if let Ok(run) = std::str::from_utf8(word) {
            splitter.split(run, words, false);
            hashes.extend(words.iter().map(|one| hash(one.of(run).as_bytes())));
        }
    });
}

/// Hashes of the words that are taken apart, a bit each: few others need a look into the table.
struct Filter(Vec<u64>);

static EXCEPTIONS: LazyLock<Filter> = LazyLock::new(|| {
    let mut bits = vec![0; 1 << (Filter::BITS - 6)];
    for word in Splitter::exceptions() {
        let place = Filter::place(hash(word));
        bits[place / 64] |= 1 << (place % 64);
    }
    Filter(bits)
});

impl Filter {
    const BITS: u32 = 15;

    fn place(hash: u64) -> usize {
        (hash >> (64 - Self::BITS)) as usize
    }

    fn may_have(&self, hash: u64) -> bool {
        let place = Self::place(hash);
        self.0[place / 64] >> (place % 64) & 1 == 1
    }
}

/// The hash of a word.
fn hash(word: &[u8]) -> u64 {
    if word.len() >= 16 {
        return xxh3_64(word);
    }
    let mut block = [0; 16];
    block[..word.len()].copy_from_slice(word);
    short(u128::from_le_bytes(block), word.len())
}

/// The same of fewer than 16 bytes, 0 behind them: both halves multiplied, and the product folded, as wyhash does it.
fn short(block: u128, length: usize) -> u64 {
    let (low, high) = (block as u64, (block >> 64) as u64);
    let product = u128::from(low ^ STEP) * u128::from(high ^ 0xe703_7ed1_a0b4_28db ^ length as u64);
    mixed((product as u64) ^ ((product >> 64) as u64))
}

/// A number of which each bit depends on all of another's.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreeing(one: &str, other: &str) -> usize {
        let (hasher, mut scratch) = (MinHash::new(2, 2000, 1, 1), Scratch::default());
        let (mut first, mut second) = (Vec::new(), Vec::new());
        hasher.bands(one, &mut scratch, &mut first);
        hasher.bands(other, &mut scratch, &mut second);
        first.iter().zip(&second).filter(|(a, b)| a == b).count()
    }

    #[test]
    fn functions_agree_as_often_as_texts_are_alike() {
        assert_eq!(agreeing("a b c d", "A, b; C d!"), 2000);
        // {ab, bc, cd, de} and {ab, bc, cd, dx}: 3 of 5
        let found = agreeing("a b c d e", "a b c d x");
        assert!((1100..1300).contains(&found), "{found}");
        assert!(agreeing("a b c d", "w x y z") < 20);
        assert_eq!(agreeing("", "?!"), 2000);
        assert_eq!(agreeing("short", "Short."), 2000);
    }

    #[test]
    fn ascii_is_hashed_as_other_texts() {
        let (hasher, mut scratch) = (MinHash::new(1, 1, 1, 1), Scratch::default());
        let mut hashes = |text: &str| {
            hasher.shingles(text, &mut scratch);
            scratch.hashes.clone()
        };
        for text in [
            "I can't, don't and cannot: 5km, b2b 10,000.25",
            "",
            "Cause ol havin a.m. 0 x0 antidisestablishmentarianism im ill",
        ] {
            let plain = hashes(text);
            let mut other = hashes(&format!("{text} \u{e9}"));
            assert_eq!(other.pop(), Some(hash(b"e")));
            assert_eq!(plain, other);
        }
    }

    #[test]
    fn parts_are_hashed_as_the_whole() {
        let (hasher, mut scratch) = (MinHash::new(1, 1, 1, 1), Scratch::default());
        let pieces = [
            "a",
            "B2",
            " ",
            "\n",
            " ",
            "\u{e9}",
            "\u{3a3}",
            "\u{3a3}A\u{3a3}",
            "1,",
            "\u{663}",
            "5",
            "\u{4eba}",
            "\u{301}",
            "can't",
            "\u{2019}",
            "\u{2018}",
            "s",
            "\u{a0}",
            "\t",
            "\u{3000}",
        ];
        let mut state = 7_u32;
        for _ in 0..3000 {
            let piece = |_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                pieces[(state >> 16) as usize % pieces.len()]
            };
            let text: String = (0..30).map(piece).collect();
            hasher.shingles(&text, &mut scratch);
            let parts = scratch.hashes.clone();
            simplify(&text, Classes::get(), &mut scratch.text);
            scratch.splitter.split(&scratch.text, &mut scratch.words, false);
            let whole: Vec<u64> = scratch.words.iter().map(|word| hash(word.of(&scratch.text).as_bytes())).collect();
            assert_eq!(parts, whole, "{text:?}");
        }
    }
}
