//! MinHash (Broder 1997): how alike texts are, by few numbers of each. A text is the set of its shingles, some neighbouring words each; its signature has the least of
//! their hashes by each of some functions, and two texts agree in one with the odds of their Jaccard similarity. Bands of a signature are looked up as a whole.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::characters::Classes;
use super::minima::lower;
use super::simplify::simplify;
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
        simplify(text, Classes::get(), &mut scratch.text);
        scratch.splitter.split(&scratch.text, &mut scratch.words, false);
        scratch.hashes.clear();
        scratch.hashes.extend(scratch.words.iter().map(|word| xxh3_64(word.of(&scratch.text).as_bytes())));
        scratch.shingles.clear();
        let oldest = STEP.wrapping_pow(self.shingle as u32);
        let mut hash = 0_u64;
        for (number, &one) in scratch.hashes.iter().enumerate() {
            hash = hash.wrapping_mul(STEP).wrapping_add(one);
            if number >= self.shingle {
                hash = hash.wrapping_sub(scratch.hashes[number - self.shingle].wrapping_mul(oldest));
            }
            if number + 1 >= self.shingle {
                scratch.shingles.push((mixed(hash) >> 32) as u32);
            }
        }
        if scratch.hashes.len() < self.shingle {
            scratch.shingles.push((mixed(hash) >> 32) as u32);
        }
    }
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
}
