//! Numbers as a column's dtype holds them.

use half::{bf16, f16};

use super::scan::Number;
use crate::core::dtype::Dtype;

/// The bytes of a number, of which the first `dtype.size()` count; None if the dtype cannot hold it. Floats are rounded to the
/// nearest; one that would become infinite is not held.
#[inline]
#[must_use]
pub fn encode(number: Number, dtype: Dtype) -> Option<[u8; 8]> {
    match (number, dtype) {
        (_, Dtype::Float64) => Some(float(number).to_ne_bytes()),
        (_, Dtype::Float32) => {
            finite(number, float(number) as f32, f32::is_finite).map(|value| pad(value.to_ne_bytes()))
        }
        (_, Dtype::Float16) => finite(number, f16::from_f64(float(number)), |value| value.is_finite())
            .map(|value| pad(value.to_ne_bytes())),
        (_, Dtype::Bfloat16) => finite(number, bf16::from_f64(float(number)), |value| value.is_finite())
            .map(|value| pad(value.to_ne_bytes())),
        (Number::Float(_), _) | (_, Dtype::Bool) => None,
        (Number::Integer(value), Dtype::Int64) => i64::try_from(value).ok().map(i64::to_ne_bytes),
        (Number::Integer(value), Dtype::Int8) => i8::try_from(value).ok().map(|value| pad(value.to_ne_bytes())),
        (Number::Integer(value), Dtype::Int16) => i16::try_from(value).ok().map(|value| pad(value.to_ne_bytes())),
        (Number::Integer(value), Dtype::Int32) => i32::try_from(value).ok().map(|value| pad(value.to_ne_bytes())),
        (Number::Integer(value), Dtype::Uint8) => u8::try_from(value).ok().map(|value| pad(value.to_ne_bytes())),
        (Number::Integer(value), Dtype::Uint16) => u16::try_from(value).ok().map(|value| pad(value.to_ne_bytes())),
        (Number::Integer(value), Dtype::Uint32) => u32::try_from(value).ok().map(|value| pad(value.to_ne_bytes())),
        (Number::Integer(value), Dtype::Uint64) => u64::try_from(value).ok().map(u64::to_ne_bytes),
    }
}

const fn float(number: Number) -> f64 {
    match number {
        Number::Integer(value) => value as f64,
        Number::Float(value) => value,
    }
}

/// The converted value, unless it lost what was finite.
fn finite<T: Copy>(number: Number, converted: T, is_finite: impl Fn(T) -> bool) -> Option<T> {
    (is_finite(converted) || !float(number).is_finite()).then_some(converted)
}

fn pad<const BYTES: usize>(bytes: [u8; BYTES]) -> [u8; 8] {
    let mut padded = [0; 8];
    padded[..BYTES].copy_from_slice(&bytes);
    padded
}
