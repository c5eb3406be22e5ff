//! What becomes of a byte depends on nothing but the byte.

use super::super::super::recolour::Tables;
use super::super::super::vectorised::byte;
use super::Change;

/// Brighter or darker: each number times the factor, cut off.
#[must_use]
pub fn brightness(factor: f64) -> Change {
    let factor = factor as f32;
    Change::rows(Tables::from_fn(|number| byte(f32::from(number) * factor)))
}

/// The upper bits alone.
#[must_use]
pub fn posterize(bits: u32) -> Change {
    if bits >= 8 {
        return Change::Nothing;
    }
    let mask = !(0xFF_u8 >> bits);
    Change::rows(Tables::from_fn(|number| number & mask))
}

/// The negative of numbers from the threshold on.
#[must_use]
pub fn solarize(threshold: f64) -> Change {
    let threshold = threshold as f32;
    Change::rows(Tables::from_fn(|number| if f32::from(number) >= threshold { !number } else { number }))
}

/// The negative.
#[must_use]
pub fn invert() -> Change {
    Change::rows(Tables::from_fn(|number| !number))
}
