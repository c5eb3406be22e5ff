//! A keyed permutation of `0..n`, computed on demand in O(1) memory.
//!
//! An alternating Feistel network over the smallest power of two that holds `n`, with cycle walking for values
//! that fall outside (Black & Rogaway, "Ciphers with arbitrary finite domains", 2002). Both halves differ by at most one
//! bit, so fewer than two steps of walking are expected.

use crate::keys::mix;

/// Rounds of the network; every round changes one half.
const ROUNDS: usize = 8;

/// The permutation of `0..n` that belongs to a key.
#[derive(Clone, Debug)]
pub struct Permutation {
    size: u64,
    low_bits: u32,
    low_mask: u64,
    high_mask: u64,
    round_keys: [u64; ROUNDS],
}

#[inline]
const fn scramble(half: u64, key: u64) -> u64 {
    let product = (half ^ key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (product ^ (product >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32
}

impl Permutation {
    /// The permutation of `0..size` for `key`; with `size` 0 or 1 it is the identity.
    #[must_use]
    pub fn new(size: u64, key: u64) -> Self {
        let bits = if size <= 2 { 1 } else { 64 - (size - 1).leading_zeros() };
        let low_bits = bits.div_ceil(2);
        let mut round_keys = [0; ROUNDS];
        for (round, round_key) in round_keys.iter_mut().enumerate() {
            *round_key = mix(&[key, size, round as u64]);
        }
        Self {
            size,
            low_bits,
            low_mask: (1_u64 << low_bits) - 1,
            high_mask: (1_u64 << (bits - low_bits)) - 1,
            round_keys,
        }
    }

    #[inline]
    const fn network(&self, value: u64) -> u64 {
        let mut low = value & self.low_mask;
        let mut high = value >> self.low_bits;
        let mut round = 0;
        while round < ROUNDS {
            low ^= scramble(high, self.round_keys[round]) & self.low_mask;
            high ^= scramble(low, self.round_keys[round + 1]) & self.high_mask;
            round += 2;
        }
        (high << self.low_bits) | low
    }

    /// Where `index` (below the size) goes.
    #[inline]
    #[must_use]
    pub const fn apply(&self, index: u64) -> u64 {
        let mut value = self.network(index);
        while value >= self.size {
            value = self.network(value);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_bijection(size: u64, key: u64) -> bool {
        let permutation = Permutation::new(size, key);
        let mut seen = vec![false; usize::try_from(size).unwrap()];
        (0..size).all(|index| {
            let value = usize::try_from(permutation.apply(index)).unwrap();
            !std::mem::replace(&mut seen[value], true)
        })
    }

    #[test]
    fn every_small_size_is_a_bijection() {
        assert!((1..=4096).all(|size| is_bijection(size, size * 31)));
    }

    #[test]
    fn sizes_around_powers_of_two_are_bijections() {
        for exponent in 12..=20 {
            for size in [(1 << exponent) - 1, 1 << exponent, (1 << exponent) + 1] {
                assert!(is_bijection(size, 5), "size {size}");
            }
        }
    }

    #[test]
    fn huge_sizes_stay_in_range() {
        let size = (1 << 40) + 12_345;
        let permutation = Permutation::new(size, 9);
        assert!((0..10_000).all(|index| permutation.apply(index) < size));
    }

    #[test]
    fn every_value_is_equally_likely_at_every_place() {
        // Chi-squared over 10 places × 10 values, 20,000 keys: mean 81 (9 × 9 degrees of freedom), far tail at 140.
        let (size, keys) = (10_usize, 20_000);
        let mut counts = vec![0_f64; size * size];
        for key in 0..keys {
            let permutation = Permutation::new(size as u64, key);
            for place in 0..size {
                counts[place * size + usize::try_from(permutation.apply(place as u64)).unwrap()] += 1.0;
            }
        }
        let expected = keys as f64 / size as f64;
        let chi: f64 = counts.iter().map(|count| (count - expected).powi(2) / expected).sum();
        assert!(chi < 140.0, "chi-squared {chi}");
    }

    #[test]
    fn neighbours_are_not_correlated() {
        let size = 100_000_u64;
        let permutation = Permutation::new(size, 3);
        let values: Vec<f64> = (0..size).map(|index| permutation.apply(index) as f64).collect();
        let mean = (size - 1) as f64 / 2.0;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
        let covariance = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
        assert!((covariance / variance).abs() < 0.02, "serial correlation {}", covariance / variance);
    }
}
