//! Keys and random numbers: every random choice is a function of named numbers, never of time or of threads.

/// One step of SplitMix64's finaliser (Steele, Lea & Flood 2014, constants by Stafford "Mix13"): a bijection on `u64`.
#[inline]
#[must_use]
pub const fn finalise(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Mixes words into a key; the order of the words matters, so (seed 1, epoch 0) and (seed 0, epoch 1) differ.
#[must_use]
pub fn mix(words: &[u64]) -> u64 {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64 ^ (words.len() as u64);
    for &word in words {
        state =
            finalise(state.wrapping_mul(0xD134_2543_DE82_EF95) ^ finalise(word.wrapping_add(0x9E37_79B9_7F4A_7C15)));
    }
    state
}

/// A small generator (SplitMix64) for the draws of one sample.
///
/// `Rng::new(mix(&[key, sample_id]))` gives the same draws on every machine and thread.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Starts the sequence that belongs to `key`.
    #[must_use]
    pub const fn new(key: u64) -> Self {
        Self(key)
    }

    /// The next 64 random bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        finalise(self.0)
    }

    /// The next uniform number in `[0, 1)`, a multiple of 2⁻⁵³.
    #[inline]
    #[allow(clippy::cast_precision_loss)]
    pub const fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// The next uniform number in `[low, high)`.
    #[inline]
    pub const fn uniform_in(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// The next uniform integer in `0..n`; `n` must not be 0 (multiply-shift, bias below n / 2⁶⁴).
    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    pub const fn below(&mut self, n: u64) -> u64 {
        ((self.bits() as u128 * n as u128) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixing_is_not_adding() {
        assert_ne!(mix(&[1, 0]), mix(&[0, 1]));
        assert_ne!(mix(&[1]), mix(&[1, 0]));
        assert_ne!(mix(&[2, 3]), mix(&[3, 2]));
    }

    #[test]
    fn keys_are_pinned() {
        // Saved states depend on these values: changing them changes every order ever promised.
        assert_eq!(mix(&[0, 0, 1]), mix(&[0, 0, 1]));
        assert_eq!(finalise(1), 0x5692_161D_100B_05E5);
    }

    #[test]
    fn uniform_numbers_fill_the_unit_interval() {
        let mut rng = Rng::new(7);
        let mean = (0..10_000).map(|_| rng.uniform()).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "mean {mean}");
        assert!((0..1_000).all(|_| rng.below(7) < 7));
    }
}
