//! Tables of 256 bytes, and the planes of interleaved pixels, with the shuffles of AVX2; tables with those of AVX-512 VBMI too.
//!
//! A shuffle of AVX2 looks up one of 16 bytes. Sixteen of them are a table of 256: row `j` of it is looked up at `x - 16 j`, which is negative, and so gives zero, for
//! all smaller numbers; each row holds the difference from the row before, so that the differences up to the right row come to what stands there:
//!
//! ```text
//! x = 0x23:  row 0 [3]  ^  (row 0 ^ row 1) [3]  ^  (row 1 ^ row 2) [3]  ^  0 …  =  row 2 [3]
//! ```
//!
//! `unsafe` here is of two kinds only: calling code that needs AVX2 or more (sound because a [`Token`] exists only where the processor has it, and tells the rest), and loads and stores
//! through pointers to arrays whose length their type states.
#![allow(unsafe_code)]
#![cfg(target_arch = "x86_64")]

use std::arch::x86_64::*;

use super::simd::Token;

/// What stands in a table at each number.
///
/// # Panics
/// If `to` is shorter than `from`.
pub fn look_up(token: Token, table: &[u8; 256], from: &[u8], to: &mut [u8]) {
    let to = &mut to[..from.len()];
    if from.len() < 64 {
        to.iter_mut().zip(from).for_each(|(to, &from)| *to = table[usize::from(from)]);
    } else if token.has_wide_shuffles() {
        // SAFETY: the token proves these shuffles.
        unsafe { look_up_wide(table, from, to) };
    } else {
        // SAFETY: the token proves AVX2.
        unsafe { look_up_narrow(table, from, to) };
    }
}

#[target_feature(enable = "avx2")]
fn look_up_narrow(table: &[u8; 256], from: &[u8], to: &mut [u8]) {
    let rows = table.as_chunks::<16>().0;
    // Both halves of the table begin anew: the sign of a number tells them apart.
    let mut differences = [_mm256_setzero_si256(); 16];
    for row in 0..16 {
        let own = both_lanes(&rows[row]);
        differences[row] = if row % 8 == 0 { own } else { _mm256_xor_si256(own, both_lanes(&rows[row - 1])) };
    }
    for (from, to) in from.as_chunks().0.iter().zip(to.as_chunks_mut().0) {
        put_narrow(&differences, from, to);
    }
    // The last ones, some of them once more.
    if let (Some(from), Some(to)) = (from.last_chunk(), to.last_chunk_mut()) {
        put_narrow(&differences, from, to);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn put_narrow(differences: &[__m256i; 16], from: &[u8; 32], to: &mut [u8; 32]) {
    // SAFETY: 32 bytes are read from an array of 32.
    let numbers = unsafe { _mm256_loadu_si256(from.as_ptr().cast()) };
    let mut places = [numbers, _mm256_xor_si256(numbers, _mm256_set1_epi8(-128))];
    let mut found = [_mm256_setzero_si256(); 2];
    for row in 0..8 {
        for half in 0..2 {
            let one = _mm256_shuffle_epi8(differences[8 * half + row], places[half]);
            found[half] = _mm256_xor_si256(found[half], one);
            places[half] = _mm256_subs_epi8(places[half], _mm256_set1_epi8(16));
        }
    }
    // SAFETY: 32 bytes are written to an array of 32.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm256_xor_si256(found[0], found[1])) };
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn look_up_wide(table: &[u8; 256], from: &[u8], to: &mut [u8]) {
    let mut parts = [_mm512_setzero_si512(); 4];
    for (part, bytes) in parts.iter_mut().zip(table.as_chunks::<64>().0) {
        // SAFETY: 64 bytes are read from an array of 64.
        *part = unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) };
    }
    for (from, to) in from.as_chunks().0.iter().zip(to.as_chunks_mut().0) {
        put_wide(&parts, from, to);
    }
    if let (Some(from), Some(to)) = (from.last_chunk(), to.last_chunk_mut()) {
        put_wide(&parts, from, to);
    }
}

/// A shuffle that looks up one of 128, in each half of the table; the sign of a number tells whose is right.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn put_wide(parts: &[__m512i; 4], from: &[u8; 64], to: &mut [u8; 64]) {
    // SAFETY: 64 bytes are read from an array of 64.
    let numbers = unsafe { _mm512_loadu_si512(from.as_ptr().cast()) };
    let low = _mm512_permutex2var_epi8(parts[0], numbers, parts[1]);
    let high = _mm512_permutex2var_epi8(parts[2], numbers, parts[3]);
    let found = _mm512_mask_blend_epi8(_mm512_movepi8_mask(numbers), low, high);
    // SAFETY: 64 bytes are written to an array of 64.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), found) };
}

#[inline]
#[target_feature(enable = "avx2")]
fn both_lanes(bytes: &[u8; 16]) -> __m256i {
    // SAFETY: sixteen bytes are read from an array of sixteen.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
}

/// The planes of a row of pixels of three bytes; each has room for all of them.
///
/// # Panics
/// If a plane is too short.
pub fn split(_: Token, row: &[u8], planes: [&mut [u8]; 3]) {
    let [red, green, blue] = planes.map(|plane| &mut plane[..row.len() / 3]);
    // SAFETY: the token proves AVX2.
    unsafe { whole_thirties(row, [red.as_chunks_mut().0, green.as_chunks_mut().0, blue.as_chunks_mut().0]) };
    let done = red.len() / 32 * 32;
    let others = red.iter_mut().zip(green).zip(blue).skip(done);
    for (&[r, g, b], ((red, green), blue)) in row.as_chunks::<3>().0[done..].iter().zip(others) {
        (*red, *green, *blue) = (r, g, b);
    }
}

/// Where the bytes of a channel stand in one of three registers of 16 bytes that hold 16 pixels: -1 there, in both lanes.
const fn bytes_of(channel: usize, register: usize) -> [i8; 32] {
    let mut mask = [0; 32];
    let mut place = 0;
    while place < 32 {
        if (16 * register + place % 16) % 3 == channel {
            mask[place] = -1;
        }
        place += 1;
    }
    mask
}

/// Where the pixels' bytes of a channel stand once those of three registers are in one, which they are without meeting.
const fn order_of(channel: usize) -> [i8; 32] {
    let mut order = [0; 32];
    let mut pixel = 0;
    while pixel < 32 {
        order[pixel] = ((3 * (pixel % 16) + channel) % 16) as i8;
        pixel += 1;
    }
    order
}

// No closures in the loops: the library's code that would call them is compiled without AVX2.
#[target_feature(enable = "avx2")]
fn whole_thirties(row: &[u8], planes: [&mut [[u8; 32]]; 3]) {
    let [red, green, blue] = planes;
    for (((pixels, red), green), blue) in row.as_chunks::<96>().0.iter().zip(red).zip(green).zip(blue) {
        let parts = pixels.as_chunks::<16>().0;
        let registers =
            [two_lanes(&parts[0], &parts[3]), two_lanes(&parts[1], &parts[4]), two_lanes(&parts[2], &parts[5])];
        put_channel::<0>(registers, red);
        put_channel::<1>(registers, green);
        put_channel::<2>(registers, blue);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn put_channel<const CHANNEL: usize>([first, second, third]: [__m256i; 3], plane: &mut [u8; 32]) {
    let two = _mm256_blendv_epi8(first, second, register_of(&const { bytes_of(CHANNEL, 1) }));
    let three = _mm256_blendv_epi8(two, third, register_of(&const { bytes_of(CHANNEL, 2) }));
    let ordered = _mm256_shuffle_epi8(three, register_of(&const { order_of(CHANNEL) }));
    // SAFETY: 32 bytes are written to an array of 32.
    unsafe { _mm256_storeu_si256(plane.as_mut_ptr().cast(), ordered) };
}

#[inline]
#[target_feature(enable = "avx2")]
fn two_lanes(low: &[u8; 16], high: &[u8; 16]) -> __m256i {
    // SAFETY: sixteen bytes are read from arrays of sixteen.
    unsafe { _mm256_set_m128i(_mm_loadu_si128(high.as_ptr().cast()), _mm_loadu_si128(low.as_ptr().cast())) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn register_of(bytes: &[i8; 32]) -> __m256i {
    // SAFETY: 32 bytes are read from an array of 32.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_up_every_number_at_every_length() {
        let Some(token) = Token::detect() else { return };
        let table: [u8; 256] = std::array::from_fn(|number| (number * number * 7 + number / 3 + 11) as u8);
        let numbers: Vec<u8> = (0..600).map(|place| (place * 37) as u8).collect();
        for token in [token, token.without_wide_shuffles()] {
            for length in [0, 1, 31, 32, 33, 63, 64, 65, 256, 600] {
                let mut found = vec![0; length];
                look_up(token, &table, &numbers[..length], &mut found);
                let wanted: Vec<u8> = numbers[..length].iter().map(|&number| table[usize::from(number)]).collect();
                assert_eq!(found, wanted, "{length}");
            }
        }
    }

    #[test]
    fn splits_pixels_at_every_width() {
        let Some(token) = Token::detect() else { return };
        let row: Vec<u8> = (0..300).map(|place| (place * 91 % 251) as u8).collect();
        for width in [0, 1, 15, 31, 32, 33, 64, 99, 100] {
            let mut planes = [vec![0; width], vec![0; width], vec![0; width]];
            split(token, &row[..3 * width], planes.each_mut().map(Vec::as_mut_slice));
            for (channel, plane) in planes.iter().enumerate() {
                let wanted: Vec<u8> = row[..3 * width].iter().skip(channel).step_by(3).copied().collect();
                assert_eq!(*plane, wanted, "channel {channel} of {width} pixels");
            }
        }
    }
}
