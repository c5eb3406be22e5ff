//! A keyed permutation of `0..n`, computed on demand in O(1) memory.
//!
//! An alternating Feistel network over the smallest power of two that holds `n`, with cycle walking for values
//! that fall outside (Black & Rogaway, "Ciphers with arbitrary finite domains", 2002). Both halves differ by at most one
//! bit, so fewer than two steps of walking are expected. Many values at once go through the network side by side.

use crate::keys::mix;

/// Rounds of the network; every round changes one half.
const ROUNDS: usize = 8;

/// Values that go through the network side by side.
const SIDE_BY_SIDE: usize = 64;

/// The permutation of `0..n` that belongs to a key.
#[derive(Clone, Debug)]
pub struct Permutation {
    size: u64,
    low_bits: u32,
    low_mask: u64,
    high_mask: u64,
    rounds: [Round; ROUNDS],
}

/// What one round mixes in: a word, and an odd factor; both of 32 bits, so that vector units can multiply.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    word: u64,
    factor: u64,
}

/// Half of a value to noise: a product of 32 by 32 bits with its halves folded, so that every bit reaches every bit.
#[inline(always)]
const fn scramble(half: u64, round: Round) -> u64 {
    let product = ((half ^ round.word) & 0xFFFF_FFFF) * round.factor;
    product ^ (product >> 32)
}

impl Permutation {
    /// The permutation of `0..size` for `key`; with `size` 0 or 1 it is the identity.
    #[must_use]
    pub fn new(size: u64, key: u64) -> Self {
        let bits = if size <= 2 { 1 } else { 64 - (size - 1).leading_zeros() };
        let low_bits = bits.div_ceil(2);
        let mut rounds = [Round::default(); ROUNDS];
        for (number, round) in rounds.iter_mut().enumerate() {
            let drawn = mix(&[key, size, number as u64]);
            *round = Round { word: drawn & 0xFFFF_FFFF, factor: (drawn >> 32) | 1 };
        }
        Self { size, low_bits, low_mask: (1_u64 << low_bits) - 1, high_mask: (1_u64 << (bits - low_bits)) - 1, rounds }
    }

    #[inline(always)]
    fn network(&self, values: &mut [u64; SIDE_BY_SIDE]) {
        let (mut low, mut high) = ([0; SIDE_BY_SIDE], [0; SIDE_BY_SIDE]);
        for place in 0..SIDE_BY_SIDE {
            low[place] = values[place] & self.low_mask;
            high[place] = values[place] >> self.low_bits;
        }
        for pair in self.rounds.chunks_exact(2) {
            for place in 0..SIDE_BY_SIDE {
                low[place] ^= scramble(high[place], pair[0]) & self.low_mask;
            }
            for place in 0..SIDE_BY_SIDE {
                high[place] ^= scramble(low[place], pair[1]) & self.high_mask;
            }
        }
        for place in 0..SIDE_BY_SIDE {
            values[place] = (high[place] << self.low_bits) | low[place];
        }
    }

    /// Replaces every value (each below the size) by where it goes.
    pub fn apply_all(&self, values: &mut [u64]) {
        let mut open = Vec::new();
        for (number, part) in values.chunks_mut(SIDE_BY_SIDE).enumerate() {
            let mut lanes = [0; SIDE_BY_SIDE];
            lanes[..part.len()].copy_from_slice(part);
            run_network(self, &mut lanes);
            part.copy_from_slice(&lanes[..part.len()]);
            let first = number * SIDE_BY_SIDE;
            open.extend(part.iter().zip(first..).filter(|(value, _)| **value >= self.size).map(|(_, place)| place));
        }
        self.walk(values, &mut open);
    }

    /// Sends the values at the `open` places, which fell outside, through the network again until they are inside.
    fn walk(&self, values: &mut [u64], open: &mut Vec<usize>) {
        while open.len() >= SIDE_BY_SIDE / 4 {
            let mut left = 0;
            for start in (0..open.len()).step_by(SIDE_BY_SIDE) {
                let count = SIDE_BY_SIDE.min(open.len() - start);
                let mut lanes = [0; SIDE_BY_SIDE];
                for lane in 0..count {
                    lanes[lane] = values[open[start + lane]];
                }
                run_network(self, &mut lanes);
                for lane in 0..count {
                    let place = open[start + lane];
                    values[place] = lanes[lane];
                    open[left] = place;
                    left += usize::from(lanes[lane] >= self.size);
                }
            }
            open.truncate(left);
        }
        for &place in &*open {
            values[place] = self.apply(values[place]);
        }
    }

    /// Where `index` (below the size) goes.
    #[must_use]
    pub fn apply(&self, index: u64) -> u64 {
        let mut value = index;
        loop {
            let (mut low, mut high) = (value & self.low_mask, value >> self.low_bits);
            for pair in self.rounds.chunks_exact(2) {
                low ^= scramble(high, pair[0]) & self.low_mask;
                high ^= scramble(low, pair[1]) & self.high_mask;
            }
            value = (high << self.low_bits) | low;
            if value < self.size {
                return value;
            }
        }
    }
}

/// The network with the widest vectors that this processor has.
#[allow(unsafe_code)]
fn run_network(permutation: &Permutation, values: &mut [u64; SIDE_BY_SIDE]) {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has AVX-512, as was just seen; nothing else about the function is unsafe.
        return unsafe { network_avx512(permutation, values) };
    }
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, as was just seen; nothing else about the function is unsafe.
        return unsafe { network_avx2(permutation, values) };
    }
    permutation.network(values);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn network_avx512(permutation: &Permutation, values: &mut [u64; SIDE_BY_SIDE]) {
    permutation.network(values);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn network_avx2(permutation: &Permutation, values: &mut [u64; SIDE_BY_SIDE]) {
    permutation.network(values);
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
    fn many_at_once_are_the_same_as_one_by_one() {
        for size in [1_u64, 2, 3, 63, 64, 65, 1_000, 65_537, (1 << 33) + 7, u64::MAX / 3] {
            let permutation = Permutation::new(size, 11);
            let mut values: Vec<u64> = (0..200).map(|index| index % size).collect();
            let expected: Vec<u64> = values.iter().map(|&value| permutation.apply(value)).collect();
            permutation.apply_all(&mut values);
            assert_eq!(values, expected, "size {size}");
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
