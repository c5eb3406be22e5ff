//! A keyed permutation of `0..n`, computed on demand in O(1) memory.
//!
//! A Feistel network whose halves are the digits of a number in a mixed radix: a value is `high · width + low` with `width` near
//! √n, and every round adds to one digit a hash of the other, modulo what that digit counts to (Black & Rogaway, "Ciphers with
//! arbitrary finite domains", 2002, section 5). `width · height` exceeds n by less than a width, so that only one value in √n falls
//! outside and goes through the network again (cycle walking). All of it is arithmetic on 32 bits: 16 values fill a
//! vector of AVX-512. `docs/decisions/2026-11-21-permutation.md` says what was measured of its randomness.

#[cfg(test)]
mod tests;

use crate::core::keys::{Rng, mix};

/// The largest size: the sum of two digits must fit 32 bits.
pub const LARGEST: u64 = 1 << 62;

/// Rounds of the network; every round changes one digit.
const ROUNDS: usize = 8;

/// Rounds for sizes below `FEW`: digits that count to little take longer to mix.
const ROUNDS_OF_FEW: usize = 24;
const FEW: u64 = 1 << 10;

/// Values that go through the network side by side.
const SIDE_BY_SIDE: usize = 64;

/// So few take less time one by one.
const FEW_VALUES: usize = 4;

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

    /// The position of `index` (below the size) in the permutation.
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

    /// The index whose position is `value`, which is below the size.
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
        if out.len() < FEW_VALUES {
            return (first..).zip(out).for_each(|(index, value)| *value = self.apply(index));
        }
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
        for part in out.chunks_mut(SIDE_BY_SIDE) {
            // Most parts have none that walks, which vectors find out faster than a loop over the values.
            if part.iter().fold(false, |any, &value| any | (value >= self.size)) {
                self.walk(part);
            }
        }
    }

    /// Takes what is not below the size through the network again.
    #[cold]
    fn walk(&self, values: &mut [u64]) {
        for value in values {
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
