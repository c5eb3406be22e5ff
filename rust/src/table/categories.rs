//! Categories and their codes: a hash table of texts or whole numbers.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::core::keys::finalise;

/// Hashes eight bytes at a time; the same on every machine.
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

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Table<K> = HashMap<K, i64, BuildHasherDefault<WordHasher>>;

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
    fn hashes_are_pinned() {
        // Models are trained on these buckets.
        assert_eq!([hash_text(b""), hash_text(b"penstock"), hash_integer(-1)].map(|hash| hash % 1000), [535, 605, 936]);
        assert_eq!(float_bits(-0.0), float_bits(0.0));
    }
}
