//! Loops of any size, compiled a second time for the instructions that this processor has.
//!
//! As `vectorised` does it with a closure; but a large closure may stay a function of its own, without these instructions, and a method that is `#[inline(always)]` may
//! not. Every operation is the same one, and no multiplication is fused with an addition, so that the bits are those of the plain loop.
#![allow(unsafe_code)]

use super::simd::Level;

/// Loops; `run`, and what it calls, is `#[inline(always)]`.
pub trait Loops {
    /// Runs them.
    fn run(self);
}

/// Runs loops, vectorised for the best instructions of a level.
pub fn run_vectorised(level: Level, loops: impl Loops) {
    match level {
        Level::Scalar => loops.run(),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a level of AVX2 holds a token, which exists only where the processor has it.
        Level::Avx2(_) => unsafe { with_avx2(loops) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2(loops: impl Loops) {
    loops.run();
}
