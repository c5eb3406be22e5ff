//! A keyed permutation of `0..n`, computed on demand in O(1) memory.
//!
//! A Feistel network whose halves are the digits of a number in a mixed radix: a value is `high · width + low` with `width` near
//! √n, and every round adds to one digit a hash of the other, modulo what that digit counts to (Black & Rogaway, "Ciphers with
//! arbitrary finite domains", 2002, section 5). `width · height` exceeds n by less than a width, so that only one value in √n falls
//! outside and goes through the network again (cycle walking). All of it is arithmetic on 32 bits: 16 values fill a
//! vector of AVX-512. `docs/decisions/2026-11-21-permutation.md` says what was measured of its randomness.

use crate::keys::{Rng, mix};

/// The largest size: the sum of two digits must fit 32 bits.
pub const LARGEST: u64 = 1 << 62;

/// Rounds of the network; every round changes one digit.
const ROUNDS: usize = 8;

/// Rounds for sizes below `FEW`: digits that count to little take longer to mix.
const ROUNDS_OF_FEW: usize = 24;
const FEW: u64 = 1 << 10;

/// Values that go through the network side by side.
const SIDE_BY_SIDE: usize = 64;

/// An odd factor without structure: 2³² over the golden ratio.
const SPREAD: u32 = 0x9E37_79B1;

type Digits = [u32; SIDE_BY_SIDE];

/// The permutation of `0..n` that belongs to a key.
#[derive(Clone, Debug)]
pub struct Permutation {
    size: u64,
    width: u32,
    height: u32,
    rounds: [Round; ROUNDS_OF_FEW],
    pairs: usize,
}

/// What one round mixes in: a word, and an odd factor.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    word: u32,
    factor: u32,
}

impl Round {
    /// The digit from which `add` makes `digit`.
    #[inline(always)]
    const fn sub(self, digit: u32, other: u32, count: u32) -> u32 {
        let noise = self.add(0, other, count);
        if digit >= noise { digit - noise } else { digit + (count - noise) }
    }

    /// `digit` plus a hash of the `other` one, modulo `count`; both the digit and `count` are at most 2³¹.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)]
    const fn add(self, digit: u32, other: u32, count: u32) -> u32 {
        let spread = (other ^ self.word).wrapping_mul(SPREAD);
        let noise = (spread ^ (spread >> 16)).wrapping_mul(self.factor);
        let sum = digit.wrapping_add(((noise as u64 * count as u64) >> 32) as u32);
        let less = sum.wrapping_sub(count);
        if less < sum { less } else { sum }
    }
}

impl Permutation {
    /// The permutation of `0..size` for `key`; with `size` 0 or 1 it is the identity. `size` is at most `LARGEST`.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)]
    pub fn new(size: u64, key: u64) -> Self {
        debug_assert!(size <= LARGEST);
        // An even width, since adding to digits of odd counts alone makes even permutations only.
        let width = if size < 2 { 1 } else { ceil_root(size).next_multiple_of(2) };
        let height = size.div_ceil(width).max(1);
        let mut draws = Rng::new(mix(&[key, size]));
        let rounds = std::array::from_fn(|_| {
            let drawn = draws.bits();
            Round { word: drawn as u32, factor: (drawn >> 32) as u32 | 1 }
        });
        let pairs = if size < FEW { ROUNDS_OF_FEW } else { ROUNDS } / 2;
        Self { size, width: width as u32, height: height as u32, rounds, pairs }
    }

    /// Where `index` (below the size) goes.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)]
    pub fn apply(&self, index: u64) -> u64 {
        let mut value = index;
        loop {
            let (mut low, mut high) = ((value % self.wide()) as u32, (value / self.wide()) as u32);
            for pair in self.pairs() {
                low = pair[0].add(low, high, self.width);
                high = pair[1].add(high, low, self.height);
            }
            value = u64::from(high) * self.wide() + u64::from(low);
            if value < self.size {
                return value;
            }
        }
    }

    /// The index that goes to `value`, which is below the size.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)]
    pub fn invert(&self, value: u64) -> u64 {
        let mut index = value;
        loop {
            let (mut low, mut high) = ((index % self.wide()) as u32, (index / self.wide()) as u32);
            for pair in self.rounds[..2 * self.pairs].rchunks_exact(2) {
                high = pair[1].sub(high, low, self.height);
                low = pair[0].sub(low, high, self.width);
            }
            index = u64::from(high) * self.wide() + u64::from(low);
            if index < self.size {
                return index;
            }
        }
    }

    /// Writes where `first`, `first + 1`, `first + 2`, … go; all of them are below the size.
    #[allow(unsafe_code)]
    pub fn run(&self, first: u64, out: &mut [u64]) {
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("avx512dq") {
            // SAFETY: the processor has AVX-512, as was just seen; nothing else about the function is unsafe.
            return unsafe { run_avx512(self, first, out) };
        }
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, as was just seen; nothing else about the function is unsafe.
            return unsafe { run_avx2(self, first, out) };
        }
        self.run_anywhere(first, out);
    }

    #[inline(always)]
    fn run_anywhere(&self, first: u64, out: &mut [u64]) {
        let (parts, rest) = out.as_chunks_mut();
        let mut from = first;
        for part in parts {
            self.network(from, part);
            from += SIDE_BY_SIDE as u64;
        }
        if !rest.is_empty() {
            let mut part = [0; SIDE_BY_SIDE];
            self.network(from, &mut part);
            rest.copy_from_slice(&part[..rest.len()]);
        }
        for value in out {
            if *value >= self.size {
                *value = self.apply(*value);
            }
        }
    }

    /// One pass of `first`, `first + 1`, … through the network. Those that are not below the size come out as anything.
    #[inline(always)]
    fn network(&self, first: u64, out: &mut [u64; SIDE_BY_SIDE]) {
        let (mut low, mut high) = self.digits(first);
        for pair in self.pairs() {
            for place in 0..SIDE_BY_SIDE {
                low[place] = pair[0].add(low[place], high[place], self.width);
            }
            for place in 0..SIDE_BY_SIDE {
                high[place] = pair[1].add(high[place], low[place], self.height);
            }
        }
        for place in 0..SIDE_BY_SIDE {
            out[place] = u64::from(high[place]) * self.wide() + u64::from(low[place]);
        }
    }

    /// The digits of `first`, `first + 1`, …: low and high.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)]
    fn digits(&self, first: u64) -> (Digits, Digits) {
        let (start, row) = ((first % self.wide()) as u32, (first / self.wide()) as u32);
        let (mut low, mut high) = ([0; SIDE_BY_SIDE], [row; SIDE_BY_SIDE]);
        low.iter_mut().zip(start..).for_each(|(low, value)| *low = value);
        if self.width as usize >= SIDE_BY_SIDE {
            for place in 0..SIDE_BY_SIDE {
                let carry = u32::from(low[place] >= self.width);
                low[place] -= carry * self.width;
                high[place] += carry;
            }
        } else {
            for place in 0..SIDE_BY_SIDE {
                high[place] += low[place] / self.width;
                low[place] %= self.width;
            }
        }
        (low, high)
    }

    #[inline(always)]
    fn pairs(&self) -> impl Iterator<Item = &[Round]> {
        self.rounds.chunks_exact(2).take(self.pairs)
    }

    #[inline(always)]
    const fn wide(&self) -> u64 {
        self.width as u64
    }
}

/// The smallest number whose square is not below `size`.
fn ceil_root(size: u64) -> u64 {
    let root = size.isqrt();
    root + u64::from(root * root < size)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq")]
fn run_avx512(permutation: &Permutation, first: u64, out: &mut [u64]) {
    permutation.run_anywhere(first, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn run_avx2(permutation: &Permutation, first: u64, out: &mut [u64]) {
    permutation.run_anywhere(first, out);
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
        for size in [1_u64, 2, 3, 63, 64, 65, 1_000, 4_096, 65_537, (1 << 33) + 7, LARGEST - 1, LARGEST] {
            let permutation = Permutation::new(size, 11);
            for first in [0, size / 3, size - size.min(200)] {
                let last = (first + 200).min(size);
                let expected: Vec<u64> = (first..last).map(|index| permutation.apply(index)).collect();
                let (mut run, mut anywhere) = (vec![0; expected.len()], vec![0; expected.len()]);
                permutation.run(first, &mut run);
                permutation.run_anywhere(first, &mut anywhere);
                assert_eq!(run, expected, "size {size} from {first}");
                assert_eq!(anywhere, expected, "size {size} from {first}");
            }
        }
    }

    #[test]
    fn the_inverse_leads_back() {
        for size in [1_u64, 2, 3, 10, 64, 1_000, 1_023, 1_024, 65_537, 1_000_003, (1 << 40) + 12_345, LARGEST] {
            let permutation = Permutation::new(size, 7);
            assert!((0..size.min(2_000)).all(|index| permutation.invert(permutation.apply(index)) == index));
        }
    }

    #[test]
    fn huge_sizes_stay_in_range() {
        for size in [(1 << 40) + 12_345, LARGEST - 5] {
            let permutation = Permutation::new(size, 9);
            assert!((0..10_000).all(|index| permutation.apply(index) < size));
        }
    }

    /// How far the chi-squared statistic of counts lies from what even chances give, in standard deviations (Wilson & Hilferty).
    fn deviation(counts: &[u32]) -> f64 {
        let (expected, freedom) =
            (f64::from(counts.iter().sum::<u32>()) / counts.len() as f64, counts.len() as f64 - 1.0);
        let chi: f64 = counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
        let spread = 2.0 / (9.0 * freedom);
        ((chi / freedom).cbrt() - (1.0 - spread)) / spread.sqrt()
    }

    fn permuted(size: u64, key: u64) -> Vec<u64> {
        let mut values = vec![0; usize::try_from(size).unwrap()];
        Permutation::new(size, key).run(0, &mut values);
        values
    }

    #[test]
    fn every_permutation_of_a_few_is_equally_likely() {
        for size in 2..=6_usize {
            let all: usize = (1..=size).product();
            let mut counts = vec![0; all];
            for key in 0..all as u64 * 50 {
                let values = permuted(size as u64, key);
                let rank = (0..size).fold(0, |rank, place| {
                    let smaller = values[place..].iter().filter(|&&value| value < values[place]).count();
                    rank * (size - place) + smaller
                });
                counts[rank] += 1;
            }
            let found = deviation(&counts);
            assert!(found.abs() < 4.0, "{size} values: {found:.1} standard deviations");
        }
    }

    #[test]
    fn every_pair_is_equally_likely_at_neighbouring_places() {
        // Just below FEW and above it, too, in 16 equal parts; the values of one part are few enough not to matter.
        for (size, parts) in [(8, 8), (9, 9), (17, 17), (25, 25), (16 * 63, 16), (16 * 64, 16), (16 * 69, 16)] {
            let mut counts = vec![0; usize::try_from(parts * parts).unwrap()];
            for key in 0..40_000 {
                let permutation = Permutation::new(size, key);
                let part = |place| permutation.apply(place) * parts / size;
                counts[usize::try_from(part(0) * parts + part(1)).unwrap()] += 1;
            }
            if size == parts {
                let twice = usize::try_from(parts).unwrap() + 1;
                counts = counts.iter().enumerate().filter(|(at, _)| at % twice != 0).map(|(_, count)| *count).collect();
            }
            let found = deviation(&counts);
            assert!(found.abs() < 4.0, "{size} values: {found:.1} standard deviations");
        }
    }

    #[test]
    fn neighbours_lie_at_every_distance() {
        for size in [10_000_u64, 1_000_000, 1_234_567] {
            let values = permuted(size, 5);
            let width = ceil_root(size) as usize;
            for apart in [1, 2, 3, 64, width, width + 1] {
                let mut counts = vec![0; 500];
                for (value, later) in values.iter().zip(&values[apart..]) {
                    counts[((later + size - value) % size * 500 / size) as usize] += 1;
                }
                let found = deviation(&counts);
                assert!(found.abs() < 4.0, "{size} values, {apart} apart: {found:.1} standard deviations");
            }
        }
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
