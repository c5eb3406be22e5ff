//! Plain loops, compiled a second time for the instructions that this processor has.
//!
//! The closure's body is inlined into a function that may use AVX2, where the compiler vectorises it. Every operation is the same one, and no multiplication
//! is fused with an addition, so that the bits are those of the plain loop.
#![allow(unsafe_code)]

use super::simd::Level;

/// Runs `work`, vectorised for the best instructions there are; what it calls must be `#[inline(always)]`.
#[inline(always)]
pub fn vectorised<R>(level: Level, work: impl FnOnce() -> R) -> R {
    match level {
        Level::Scalar => work(),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a level of AVX2 holds a token, which exists only where the processor has it.
        Level::Avx2(_) => unsafe { with_avx2(work) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}
