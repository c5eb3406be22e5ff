//! Upsampling and colour conversion of rows with AVX2. Same results as `upsample.rs` and `colour.rs`.
#![allow(unsafe_code)] // Vector loads and stores through pointers; each place says why it stays in bounds.

use std::arch::x86_64::*;

use super::{colour, upsample};

/// 16 bytes at `at`, widened to 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn widen(row: &[u8], at: usize) -> __m256i {
    debug_assert!(at + 16 <= row.len());
    // SAFETY: callers loop while `at + 16` and what they add to it lie inside of their rows.
    unsafe { _mm256_cvtepu8_epi16(_mm_loadu_si128(row.as_ptr().add(at).cast())) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn times3(x: __m256i) -> __m256i {
    _mm256_add_epi16(x, _mm256_add_epi16(x, x))
}

/// See [`upsample::double_row`]; `out.len()` is even.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn double_row(near: &[u8], out: &mut [u8]) {
    let (one, two) = (_mm256_set1_epi16(1), _mm256_set1_epi16(2));
    let mut i = 0;
    while i + 18 <= near.len() && 2 * i + 32 <= out.len() {
        let middle = times3(widen(near, i + 1));
        let even = _mm256_srli_epi16::<2>(_mm256_add_epi16(_mm256_add_epi16(middle, widen(near, i)), one));
        let odd = _mm256_srli_epi16::<2>(_mm256_add_epi16(_mm256_add_epi16(middle, widen(near, i + 2)), two));
        let pairs = _mm256_or_si256(even, _mm256_slli_epi16::<8>(odd));
        // SAFETY: `2 * i + 32 <= out.len()`.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().add(2 * i).cast(), pairs) };
        i += 16;
    }
    upsample::double_row(&near[i.min(near.len())..], &mut out[2 * i..]);
}

/// See [`upsample::double_both`]; `out.len()` is even.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn double_both(near: &[u8], far: &[u8], out: &mut [u8]) {
    let (seven, eight) = (_mm256_set1_epi16(7), _mm256_set1_epi16(8));
    let len = near.len().min(far.len());
    let mut i = 0;
    while i + 18 <= len && 2 * i + 32 <= out.len() {
        let sum = |k: usize| _mm256_add_epi16(times3(widen(near, i + k)), widen(far, i + k));
        let middle = times3(sum(1));
        let even = _mm256_srli_epi16::<4>(_mm256_add_epi16(_mm256_add_epi16(middle, sum(0)), eight));
        let odd = _mm256_srli_epi16::<4>(_mm256_add_epi16(_mm256_add_epi16(middle, sum(2)), seven));
        let pairs = _mm256_or_si256(even, _mm256_slli_epi16::<8>(odd));
        // SAFETY: `2 * i + 32 <= out.len()`.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().add(2 * i).cast(), pairs) };
        i += 16;
    }
    upsample::double_both(&near[i.min(near.len())..], &far[i.min(far.len())..], &mut out[2 * i..]);
}

/// See [`colour::ycc_row`].
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn ycc_row(y: &[u8], cb: &[u8], cr: &[u8], out: &mut [u8]) {
    let len = (out.len() / 3).min(y.len()).min(cb.len()).min(cr.len());
    let mut i = 0;
    while i + 32 <= len {
        let [red, green, blue] = ycc_32([y, cb, cr], i);
        // SAFETY: `i + 32 <= out.len() / 3`, so bytes 3 * i .. 3 * i + 96 are inside `out`.
        unsafe { store_interleaved(red, green, blue, out.as_mut_ptr().add(3 * i)) };
        i += 32;
    }
    colour::ycc_row(&y[i..], &cb[i..], &cr[i..], &mut out[3 * i..]);
}

/// See [`colour::ycc_planes`].
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn ycc_planes([y, cb, cr]: [&mut [u8]; 3]) {
    let len = y.len().min(cb.len()).min(cr.len());
    let mut i = 0;
    while i + 32 <= len {
        let colours = ycc_32([y, cb, cr], i);
        for (plane, colour) in [&mut *y, &mut *cb, &mut *cr].into_iter().zip(colours) {
            // SAFETY: `i + 32 <= len`.
            unsafe { _mm256_storeu_si256(plane.as_mut_ptr().add(i).cast(), colour) };
        }
        i += 32;
    }
    colour::ycc_planes([&mut y[i..], &mut cb[i..], &mut cr[i..]]);
}

/// Red, green, blue of the 32 pixels from `at` on; every plane has so many.
#[inline]
#[target_feature(enable = "avx2")]
fn ycc_32([y, cb, cr]: [&[u8]; 3], at: usize) -> [__m256i; 3] {
    // Without `map`, whose closures are calls where the compiler does not see that they need not be.
    let low = ycc_16(widen(y, at), widen(cb, at), widen(cr, at));
    let high = ycc_16(widen(y, at + 16), widen(cb, at + 16), widen(cr, at + 16));
    // `packus` works per lane: put the 64-bit groups back in order.
    let whole = |low, high| _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi16(low, high));
    [whole(low[0], high[0]), whole(low[1], high[1]), whole(low[2], high[2])]
}

/// Red, green, blue of 16 pixels as 16-bit numbers, not yet clipped.
#[inline]
#[target_feature(enable = "avx2")]
fn ycc_16(y: __m256i, cb: __m256i, cr: __m256i) -> [__m256i; 3] {
    let centre = _mm256_set1_epi16(128);
    let (cb, cr) = (_mm256_sub_epi16(cb, centre), _mm256_sub_epi16(cr, centre));
    // 1.402 = 1 + 26345/65536: floor((2 * cr * 26345) / 65536), then (that + 1) / 2 rounds the whole as libjpeg does.
    let part = _mm256_mulhi_epi16(_mm256_add_epi16(cr, cr), _mm256_set1_epi16(26345));
    let part = _mm256_srai_epi16::<1>(_mm256_add_epi16(part, _mm256_set1_epi16(1)));
    let red = _mm256_add_epi16(_mm256_add_epi16(y, cr), part);
    // 1.772 = 2 - 14942/65536, and 14942 is even: a rounding multiply by 7471/32768 is exact.
    let part = _mm256_mulhrs_epi16(cb, _mm256_set1_epi16(-7471));
    let blue = _mm256_add_epi16(_mm256_add_epi16(y, _mm256_add_epi16(cb, cb)), part);
    // -0.34414 cb - 0.71414 cr = (-22554 cb + 18734 cr) / 65536 - cr.
    let weights = _mm256_set1_epi32(i32::from(-22554i16 as u16) | 18734 << 16);
    let round = _mm256_set1_epi32(32768);
    let turn = |pairs| _mm256_srai_epi32::<16>(_mm256_add_epi32(_mm256_madd_epi16(pairs, weights), round));
    let part = _mm256_packs_epi32(turn(_mm256_unpacklo_epi16(cb, cr)), turn(_mm256_unpackhi_epi16(cb, cr)));
    let green = _mm256_add_epi16(_mm256_sub_epi16(y, cr), part);
    [red, green, blue]
}

/// Stores 32 pixels.
///
/// # Safety
/// 96 bytes from `out` on must be writable.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_interleaved(red: __m256i, green: __m256i, blue: __m256i, out: *mut u8) {
    let twice = |bytes: [i8; 16]| {
        // SAFETY: a load of 16 bytes from an array of 16.
        _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
    };
    // Each colour's bytes go to the places (mod 3) where they belong; three blends then make the three vectors.
    let red = _mm256_shuffle_epi8(red, twice([0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10, 5]));
    let green = _mm256_shuffle_epi8(green, twice([5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10]));
    let blue = _mm256_shuffle_epi8(blue, twice([10, 5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15]));
    let second = twice([0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0]);
    let third = twice([0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0]);
    let mix = |a, b, c| _mm256_blendv_epi8(_mm256_blendv_epi8(a, b, second), c, third);
    let (first, middle, last) = (mix(red, green, blue), mix(green, blue, red), mix(blue, red, green));
    // Lanes hold bytes 0..16, 16..32, 32..48 of the first 16 pixels and of the second 16 pixels.
    // SAFETY: the caller promises 96 bytes.
    unsafe {
        _mm256_storeu_si256(out.cast(), _mm256_permute2x128_si256::<0x20>(first, middle));
        _mm256_storeu_si256(out.add(32).cast(), _mm256_permute2x128_si256::<0x30>(last, first));
        _mm256_storeu_si256(out.add(64).cast(), _mm256_permute2x128_si256::<0x31>(middle, last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_equal_scalar_for_all_values() {
        if !crate::jpeg::kernels::has_avx2() {
            return;
        }
        let y: Vec<u8> = (0..=255).collect();
        for cb in 0..=255 {
            for cr in (0..=255).step_by(3) {
                let (cb, cr) = ([cb; 256], [cr; 256]);
                let (mut expected, mut found) = ([0; 768], [0; 768]);
                colour::ycc_row(&y, &cb, &cr, &mut expected);
                // SAFETY: the CPU has AVX2.
                unsafe { ycc_row(&y, &cb, &cr, &mut found) };
                assert_eq!(found, expected);
                let mut planes = [y.clone(), cb.to_vec(), cr.to_vec()];
                // SAFETY: the CPU has AVX2.
                unsafe { ycc_planes(planes.each_mut().map(Vec::as_mut_slice)) };
                let pixels = expected.as_chunks::<3>().0;
                assert!((0..3).all(|c| planes[c].iter().zip(pixels).all(|(value, pixel)| *value == pixel[c])));
            }
        }
    }
}
