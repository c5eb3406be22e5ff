//! Random numbers of rows: each row's come of its own key, whatever rows are beside it.

use std::convert::Infallible;

use rand_core::TryRng;
use rand_distr::{Beta, Binomial, Distribution, Exp1, Gamma, Poisson, StandardNormal};

use crate::core::keys::{Rng, finalise, mix};

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The random words of one row in one call, reached by their numbers.
///
/// Two keys, since words of one would be those of other rows' sequences further on.
#[derive(Clone, Copy)]
struct RowWords(u64, u64);

impl RowWords {
    fn new(key: u64, call: u64) -> Self {
        Self(mix(&[key, call, 0]), mix(&[key, call, 1]))
    }

    #[inline]
    const fn word(self, number: u64) -> u64 {
        finalise(self.0.wrapping_add(number.wrapping_mul(STEP)) ^ self.1)
    }
}

/// The random words of one number: a distribution may need several.
struct Words(Rng);

impl TryRng for Words {
    type Error = Infallible;

    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.0.bits() >> 32) as u32)
    }

    #[inline]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.bits())
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        for piece in out.chunks_mut(8) {
            piece.copy_from_slice(&self.0.bits().to_le_bytes()[..piece.len()]);
        }
        Ok(())
    }
}

/// Normal numbers of mean 0 and standard deviation 1, one after another.
pub struct Normals(Words);

impl Normals {
    /// Those that belong to `key`.
    #[must_use]
    pub const fn new(key: u64) -> Self {
        Self(Words(Rng::new(key)))
    }

    /// The next one.
    #[inline]
    pub fn draw(&mut self) -> f64 {
        StandardNormal.sample(&mut self.0)
    }
}

/// Distributions, with up to two parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `[0, 1)`.
    Uniform,
    /// Mean 0, standard deviation 1.
    Normal,
    /// Mean 1.
    Exponential,
    /// Shape; scale 1.
    Gamma,
    /// Alpha, beta.
    Beta,
    /// Trials, probability.
    Binomial,
    /// Mean.
    Poisson,
}

impl Kind {
    /// The distribution of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "uniform" => Self::Uniform,
            "normal" => Self::Normal,
            "exponential" => Self::Exponential,
            "gamma" => Self::Gamma,
            "beta" => Self::Beta,
            "binomial" => Self::Binomial,
            "poisson" => Self::Poisson,
            _ => return None,
        })
    }
}

/// The key of every row: what `key` and its id come to.
pub fn row_keys(ids: &[i64], key: u64, out: &mut [u64]) {
    for (out, id) in out.iter_mut().zip(ids) {
        *out = mix(&[key, id.cast_unsigned()]);
    }
}

/// Fills the rows of `out`, equally many numbers each, by `make` from the words of each row.
fn fill<T>(keys: &[u64], call: u64, out: &mut [T], mut make: impl FnMut(RowWords, u64, usize) -> T) {
    let each = if keys.is_empty() { 0 } else { out.len() / keys.len() };
    if each == 0 {
        return;
    }
    for (row, (out, &key)) in out.chunks_exact_mut(each).zip(keys).enumerate() {
        let words = RowWords::new(key, call);
        for (place, out) in out.iter_mut().enumerate() {
            *out = make(words, place as u64, row * each + place);
        }
    }
}

/// Numbers of a distribution. `first`, `second`: its parameters, one for all or one for each number.
///
/// # Errors
/// The place of the first number whose parameters give no distribution.
pub fn fill_floats(
    kind: Kind,
    keys: &[u64],
    call: u64,
    [first, second]: [&[f64]; 2],
    out: &mut [f64],
) -> Result<(), usize> {
    let mut wrong = None;
    let given = |of: &[f64], at: usize| if of.len() == 1 { of[0] } else { of[at] };
    let begun = |words: RowWords, number| Words(Rng::new(words.word(number)));
    match kind {
        Kind::Uniform => fill(keys, call, out, |words, number, _| unit(words.word(number))),
        Kind::Normal => fill(keys, call, out, |words, number, _| StandardNormal.sample(&mut begun(words, number))),
        Kind::Exponential => fill(keys, call, out, |words, number, _| Exp1.sample(&mut begun(words, number))),
        _ => fill(keys, call, out, |words, number, at| {
            let found = drawn(kind, given(first, at), given(second, at), &mut begun(words, number));
            found.unwrap_or_else(|| {
                wrong = wrong.or(Some(at));
                f64::NAN
            })
        }),
    }
    wrong.map_or(Ok(()), Err)
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn drawn(kind: Kind, first: f64, second: f64, words: &mut Words) -> Option<f64> {
    Some(match kind {
        Kind::Gamma => Gamma::new(first, 1.0).ok()?.sample(words),
        Kind::Beta => Beta::new(first, second).ok()?.sample(words),
        Kind::Binomial => Binomial::new(first as u64, second).ok()?.sample(words) as f64,
        _ if first == 0.0 => 0.0,
        _ => Poisson::new(first).ok()?.sample(words),
    })
}

#[inline]
#[allow(clippy::cast_precision_loss)]
const fn unit(word: u64) -> f64 {
    (word >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// Numbers in `[0, 1)`, multiples of 2⁻²⁴.
#[allow(clippy::cast_precision_loss)]
pub fn fill_uniform_f32(keys: &[u64], call: u64, out: &mut [f32]) {
    fill(keys, call, out, |words, number, _| (words.word(number) >> 40) as f32 * (1.0 / 16_777_216.0));
}

/// Integers from `low` on, `count` many (0: all 2⁶⁴), modulo 2⁶⁴. `low`, `count`: one for all or one for each number.
#[allow(clippy::cast_possible_truncation)]
pub fn fill_integers(keys: &[u64], call: u64, low: &[u64], count: &[u64], out: &mut [u64]) {
    let given = |of: &[u64], at: usize| if of.len() == 1 { of[0] } else { of[at] };
    fill(keys, call, out, |words, number, at| {
        let (word, count) = (words.word(number), given(count, at));
        let drawn = if count == 0 { word } else { ((u128::from(word) * u128::from(count)) >> 64) as u64 };
        given(low, at).wrapping_add(drawn)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Vec<u64> {
        let mut keys = vec![0; 500];
        row_keys(&(0..500).collect::<Vec<_>>(), 7, &mut keys);
        keys
    }

    #[test]
    fn a_rows_numbers_do_not_depend_on_its_neighbours() {
        for kind in
            [Kind::Uniform, Kind::Normal, Kind::Exponential, Kind::Gamma, Kind::Beta, Kind::Binomial, Kind::Poisson]
        {
            let (mut all, mut one, parameters) = (vec![0.0; 4_000], vec![0.0; 8], [&[3.0][..], &[0.5]]);
            fill_floats(kind, &keys(), 2, parameters, &mut all).unwrap();
            fill_floats(kind, &keys()[123..124], 2, parameters, &mut one).unwrap();
            assert_eq!(one, all[8 * 123..8 * 124], "{kind:?}");
            fill_floats(kind, &keys()[123..124], 3, parameters, &mut one).unwrap();
            assert_ne!(one, all[8 * 123..8 * 124], "{kind:?}: another call");
        }
    }

    #[test]
    fn means_and_variances_are_those_of_the_distributions() {
        let expected = [
            (Kind::Uniform, 0.5, 1.0 / 12.0),
            (Kind::Normal, 0.0, 1.0),
            (Kind::Exponential, 1.0, 1.0),
            (Kind::Gamma, 3.0, 3.0),
            (Kind::Beta, 6.0 / 7.0, 1.5 / (3.5 * 3.5 * 4.5)),
            (Kind::Binomial, 1.5, 0.75),
            (Kind::Poisson, 3.0, 3.0),
        ];
        let mut out = vec![0.0; 100_000];
        for (kind, mean, variance) in expected {
            fill_floats(kind, &keys(), 0, [&[3.0], &[0.5]], &mut out).unwrap();
            let found = out.iter().sum::<f64>() / 1e5;
            let spread = out.iter().map(|x| (x - found).powi(2)).sum::<f64>() / 1e5;
            assert!((found - mean).abs() < 0.02, "{kind:?}: mean {found}");
            assert!((spread / variance - 1.0).abs() < 0.03, "{kind:?}: variance {spread}");
        }
    }

    #[test]
    fn integers_stay_in_their_range_and_wrong_parameters_are_named() {
        let mut out = vec![0; 1_000];
        fill_integers(&keys(), 0, &[5_u64.wrapping_neg()], &[11], &mut out);
        assert!(out.iter().all(|&drawn| drawn.wrapping_add(5) < 11));
        assert_eq!(fill_floats(Kind::Gamma, &keys()[..2], 0, [&[1.0, -1.0], &[0.0]], &mut [0.0; 2]), Err(1));
        fill_floats(Kind::Uniform, &[], 0, [&[], &[]], &mut []).unwrap();
    }
}
