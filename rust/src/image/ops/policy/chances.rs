//! Numbers of other distributions than the uniform one.

use std::f64::consts::TAU;

use crate::core::keys::Rng;

/// A standard normal number (Box and Muller 1958).
pub(super) fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.uniform()).ln()).sqrt();
    radius * (TAU * rng.uniform()).cos()
}

/// The logarithm of a number of the gamma distribution of that shape (Marsaglia and Tsang 2000): of small shapes, the number itself would be 0.
fn ln_gamma(shape: f64, rng: &mut Rng) -> f64 {
    if shape < 1.0 {
        let less = (1.0 - rng.uniform()).ln() / shape;
        return ln_gamma(shape + 1.0, rng) + less;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(rng);
        let root = 1.0 + c * x;
        let v = root * root * root;
        let u = 1.0 - rng.uniform();
        if v > 0.0 && u.ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return (d * v).ln();
        }
    }
}

/// Shares whose sum is 1, of the Dirichlet distribution with one parameter for all.
pub(super) fn dirichlet(alpha: f64, count: usize, rng: &mut Rng) -> Vec<f64> {
    let logarithms: Vec<f64> = (0..count).map(|_| ln_gamma(alpha, rng)).collect();
    let most = logarithms.iter().copied().fold(f64::MIN, f64::max);
    let shares: Vec<f64> = logarithms.iter().map(|logarithm| (logarithm - most).exp()).collect();
    let sum: f64 = shares.iter().sum();
    shares.iter().map(|share| share / sum).collect()
}
