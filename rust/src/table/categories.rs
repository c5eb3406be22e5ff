//! Categories and their codes: a hash table of texts or whole numbers.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use crate::core::keys::finalise;

/// Hashes eight bytes at a time; the same on every machine, and in all versions.
#[derive(Default)]
pub struct WordHasher(u64);

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.write_u64(u64::from_le_bytes(last) ^ ((rest.len() as u64) << 56));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = finalise(self.0.wrapping_mul(0xD134_2543_DE82_EF95) ^ word.wrapping_add(0x9E37_79B9_7F4A_7C15));
    }

    fn write_i64(&mut self, number: i64) {
        self.write_u64(number.cast_unsigned());
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A hash for tables in memory: one product for 16 bytes, begun by chance, so that nobody can choose categories that meet in one place.
#[derive(Clone)]
pub struct Seeded(u64);

impl Default for Seeded {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Seeded {
    type Hasher = FoldHasher;

    fn build_hasher(&self) -> FoldHasher {
        FoldHasher(self.0)
    }
}

/// See `Seeded`.
pub struct FoldHasher(u64);

impl FoldHasher {
    fn fold(&mut self, one: u64, other: u64) {
        let product = u128::from(self.0 ^ one) * u128::from(other ^ 0x9E37_79B9_7F4A_7C15);
        let folded = (product >> 64) as u64 ^ product as u64;
        self.0 = folded.wrapping_add(0xD134_2543_DE82_EF95).rotate_left(23);
    }
}

/// Eight bytes as a word.
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl Hasher for FoldHasher {
    fn write(&mut self, bytes: &[u8]) {
        let length = bytes.len();
        let (first, last) = match length {
            0 => (0, 0),
            1..=7 => {
                let half = |at: usize| u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")));
                if length >= 4 {
                    (half(0), half(length - 4))
                } else {
                    (u64::from(bytes[0]) | u64::from(bytes[length / 2]) << 8, u64::from(bytes[length - 1]))
                }
            }
            8..=16 => (word(bytes, 0), word(bytes, length - 8)),
            _ => {
                for at in (0..length - 16).step_by(16) {
                    self.fold(word(bytes, at), word(bytes, at + 8));
                }
                (word(bytes, length - 16), word(bytes, length - 8))
            }
        };
        self.fold(first, last);
        self.0 ^= length as u64;
    }

    fn write_i64(&mut self, number: i64) {
        self.fold(number.cast_unsigned(), 0);
    }

    /// The length of a text, which is in its hash already.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0.wrapping_mul(0xBF58_476D_1CE4_E5B9).rotate_left(26)
    }
}

type Table<K> = HashMap<K, i64, Seeded>;

/// The categories of a column.
pub enum Categories {
    /// Text, by its bytes.
    Texts(Table<Box<[u8]>>),
    /// Whole numbers; of floats their bits.
    Integers(Table<i64>),
}

impl Categories {
    /// Texts that lie in `data`, each at two neighbouring edges; their codes count from 0.
    #[must_use]
    pub fn of_texts<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Self {
        Self::Texts(texts.zip(0..).map(|(text, code)| (text.into(), code)).collect())
    }

    /// Whole numbers; their codes count from 0.
    #[must_use]
    pub fn of_integers(numbers: &[i64]) -> Self {
        Self::Integers(numbers.iter().copied().zip(0..).collect())
    }
}

/// The number by which a text falls into a bucket; the same in all versions and on all machines.
#[must_use]
pub fn hash_text(text: &[u8]) -> u64 {
    let mut hasher = WordHasher::default();
    hasher.write(text);
    hasher.finish()
}

/// The same of a whole number.
#[must_use]
pub fn hash_integer(number: i64) -> u64 {
    let mut hasher = WordHasher::default();
    hasher.write_i64(number);
    hasher.finish()
}

/// The bits by which a float is a category: 0.0 and -0.0 are one.
#[must_use]
pub fn float_bits(number: f64) -> i64 {
    (number + 0.0).to_bits().cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_all_lengths_have_hashes_of_their_own() {
        let texts: Vec<Vec<u8>> = (0..40).map(|length| vec![0; length]).collect();
        let mut hashes: Vec<u64> = texts.iter().map(|text| hash_text(text)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 40);
    }

    #[test]
    fn texts_of_all_lengths_are_found() {
        let texts: Vec<Vec<u8>> = (0..70_u8).map(|length| (0..length).collect()).collect();
        let Categories::Texts(table) = Categories::of_texts(texts.iter().map(Vec::as_slice)) else { unreachable!() };
        let codes: Vec<i64> = texts.iter().map(|text| table[text.as_slice()]).collect();
        assert_eq!(codes, (0..70).collect::<Vec<i64>>());
        let hashes: std::collections::HashSet<u64> =
            texts.iter().map(|text| table.hasher().hash_one(text.as_slice())).collect();
        assert_eq!(hashes.len(), 70);
    }

    #[test]
    fn hashes_are_pinned() {
        // Models are trained on these buckets.
        assert_eq!([hash_text(b""), hash_text(b"penstock"), hash_integer(-1)].map(|hash| hash % 1000), [535, 605, 936]);
        assert_eq!(float_bits(-0.0), float_bits(0.0));
    }
}
