//! Plain loops, compiled a second time for the instructions that this processor has.
//!
//! `vectorised!(level, work)` stands for the expression `work`. It writes it twice, and once into a function that may use AVX2, where the compiler vectorises its
//! loops: it must be inlined there, which happens to a closure that is called in one place and to `#[inline(always)]` functions. Every operation is the same one, and
//! a multiplication is fused with an addition only where the loop says so (`mul_add`), so that the bits are those of the plain loop.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use super::simd::Token;

/// The value of an expression, vectorised for the best instructions of a [`super::simd::Level`]; what it calls must be `#[inline(always)]`, and it has no `return`.
macro_rules! vectorised {
    ($level:expr, $work:expr) => {
        match $level {
            $crate::image::simd::Level::Scalar => $work,
            #[cfg(target_arch = "x86_64")]
            $crate::image::simd::Level::Avx2(token) => $crate::image::vectorised::with_avx2(token, || $work),
        }
    };
}

pub(crate) use vectorised;

/// Does the work where AVX2 may be used.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn with_avx2<R>(_: Token, work: impl FnOnce() -> R) -> R {
    // SAFETY: a token exists only where the processor has AVX2.
    unsafe { compiled(work) }
}

// Inlined by no one who lacks AVX2; compiled where it is used, so that the work is at hand.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma")]
fn compiled<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// The number as a byte: bounded, and what is behind the point is cut off. `as u8` does the same, but number by number.
#[inline(always)]
pub fn byte(value: f32) -> u8 {
    let value = if value > 0.0 { value } else { 0.0 };
    let value = if value < 255.0 { value } else { 255.0 };
    // SAFETY: it is a number from 0 to 255.
    unsafe { value.to_int_unchecked::<i32>() as u8 }
}
