//! The least hash of a set by each of many functions: the inner loop of MinHash, compiled a second time for AVX2.
#![allow(unsafe_code)]

/// Lowers each of `least` to the least value that its function has for one of `shingles`: multiplier · shingle + offset modulo 2³².
pub fn lower(shingles: &[u32], multipliers: &[u32], offsets: &[u32], least: &mut [u32]) {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: this processor has AVX2.
        return unsafe { with_avx2(shingles, multipliers, offsets, least) };
    }
    plain(shingles, multipliers, offsets, least);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2(shingles: &[u32], multipliers: &[u32], offsets: &[u32], least: &mut [u32]) {
    plain(shingles, multipliers, offsets, least);
}

/// Several shingles a pass, so that functions are loaded once for all of them.
#[inline(always)]
fn plain(shingles: &[u32], multipliers: &[u32], offsets: &[u32], least: &mut [u32]) {
    let (together, rest) = shingles.as_chunks::<4>();
    let functions = least.len().min(multipliers.len()).min(offsets.len());
    let (least, multipliers, offsets) = (&mut least[..functions], &multipliers[..functions], &offsets[..functions]);
    for &[a, b, c, d] in together {
        for ((least, &multiplier), &offset) in least.iter_mut().zip(multipliers).zip(offsets) {
            // written out: what the standard library calls here need not be compiled for AVX2
            let a = a.wrapping_mul(multiplier).wrapping_add(offset);
            let b = b.wrapping_mul(multiplier).wrapping_add(offset);
            let c = c.wrapping_mul(multiplier).wrapping_add(offset);
            let d = d.wrapping_mul(multiplier).wrapping_add(offset);
            *least = (*least).min(a.min(b)).min(c.min(d));
        }
    }
    for &one in rest {
        for ((least, &multiplier), &offset) in least.iter_mut().zip(multipliers).zip(offsets) {
            *least = (*least).min(one.wrapping_mul(multiplier).wrapping_add(offset));
        }
    }
}
