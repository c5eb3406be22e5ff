//! The choice between scalar code and AVX2, made once per decode.

use super::idct::{self, Block, Target};
use super::{colour, upsample};

/// The inner loops that exist in more than one version; all versions give the same results.
pub(super) trait Kernels {
    fn idct_pair(blocks: [&Block; 2], steps: [&[u16; 64]; 2], planes: &mut [u8], to: [Target; 2]);
    fn idct_4x4_pair(blocks: [&Block; 2], steps: [&[u16; 64]; 2], planes: &mut [u8], to: [Target; 2]);
    fn idct_2x2_pair(blocks: [&Block; 2], steps: [&[u16; 64]; 2], planes: &mut [u8], to: [Target; 2]);
    fn double_row(near: &[u8], out: &mut [u8]);
    fn double_both(near: &[u8], far: &[u8], out: &mut [u8]);
    fn ycc_row(y: &[u8], cb: &[u8], cr: &[u8], out: &mut [u8]);
    fn ycc_planes(planes: [&mut [u8]; 3]);
}

/// Plain Rust.
pub(super) struct Scalar;

impl Kernels for Scalar {
    #[inline(always)]
    fn idct_pair(blocks: [&Block; 2], steps: [&[u16; 64]; 2], planes: &mut [u8], to: [Target; 2]) {
        for i in 0..2 {
            idct::idct_8x8(blocks[i], steps[i], planes, to[i]);
        }
    }

    #[inline(always)]
    fn idct_4x4_pair(blocks: [&Block; 2], steps: [&[u16; 64]; 2], planes: &mut [u8], to: [Target; 2]) {
        for i in 0..2 {
            idct::idct_4x4(blocks[i], steps[i], planes, to[i]);
        }
    }

    #[inline(always)]
    fn idct_2x2_pair(blocks: [&Block; 2], steps: [&[u16; 64]; 2], planes: &mut [u8], to: [Target; 2]) {
        for i in 0..2 {
            idct::idct_2x2(blocks[i], steps[i], planes, to[i]);
        }
    }

    #[inline(always)]
    fn double_row(near: &[u8], out: &mut [u8]) {
        upsample::double_row(near, out);
    }

    #[inline(always)]
    fn double_both(near: &[u8], far: &[u8], out: &mut [u8]) {
        upsample::double_both(near, far, out);
    }

    #[inline(always)]
    fn ycc_row(y: &[u8], cb: &[u8], cr: &[u8], out: &mut [u8]) {
        colour::ycc_row(y, cb, cr, out);
    }

    #[inline(always)]
    fn ycc_planes(planes: [&mut [u8]; 3]) {
        colour::ycc_planes(planes);
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, has_avx2};

#[cfg(target_arch = "x86_64")]
mod x86 {
    #![allow(unsafe_code)] // Calls of functions that need CPU features.

    use super::{Block, Kernels, Target};
    use crate::jpeg::{idct_avx2, rows_avx2};

    /// Whether the CPU has what [`Avx2`] and the functions compiled for it use.
    pub(in crate::jpeg) fn has_avx2() -> bool {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2")
    }

    /// AVX2; only reached through `decode_avx2`, which is called after [`has_avx2`] said yes.
    pub(in crate::jpeg) struct Avx2;

    // SAFETY, for all seven: this type is named in one place, behind the check of the CPU's features.
    impl Kernels for Avx2 {
        #[inline(always)]
        fn idct_pair(blocks: [&Block; 2], steps: [&[u16; 64]; 2], planes: &mut [u8], to: [Target; 2]) {
            unsafe { idct_avx2::idct_pair(blocks, steps, planes, to) }
        }

        #[inline(always)]
        fn idct_4x4_pair(blocks: [&Block; 2], steps: [&[u16; 64]; 2], planes: &mut [u8], to: [Target; 2]) {
            unsafe { idct_avx2::idct_4x4_pair(blocks, steps, planes, to) }
        }

        #[inline(always)]
        fn idct_2x2_pair(blocks: [&Block; 2], steps: [&[u16; 64]; 2], planes: &mut [u8], to: [Target; 2]) {
            unsafe { idct_avx2::idct_2x2_pair(blocks, steps, planes, to) }
        }

        #[inline(always)]
        fn double_row(near: &[u8], out: &mut [u8]) {
            unsafe { rows_avx2::double_row(near, out) }
        }

        #[inline(always)]
        fn double_both(near: &[u8], far: &[u8], out: &mut [u8]) {
            unsafe { rows_avx2::double_both(near, far, out) }
        }

        #[inline(always)]
        fn ycc_row(y: &[u8], cb: &[u8], cr: &[u8], out: &mut [u8]) {
            unsafe { rows_avx2::ycc_row(y, cb, cr, out) }
        }

        #[inline(always)]
        fn ycc_planes(planes: [&mut [u8]; 3]) {
            unsafe { rows_avx2::ycc_planes(planes) }
        }
    }
}
