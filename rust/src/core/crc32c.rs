//! CRC-32C (Castagnoli, RFC 3720 appendix B.4; catalogue name CRC-32/ISCSI) and the mask that TFRecord puts on it.

use rayon::prelude::*;

/// Parts that one task of the pool sums at least.
pub const PARTS_PER_TASK: usize = 16;

/// Added to the rotated sum, so that the sum of data that holds sums is not weak (TensorFlow, `lib/hash/crc32c.h`).
const MASK_DELTA: u32 = 0xA282_EAD8;

/// The plain sum: `sum(b"123456789") == 0xE3069283`.
#[inline]
#[must_use]
pub fn sum(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The sum as TFRecord stores it: rotated by 15 bits, plus a constant.
#[inline]
#[must_use]
pub fn masked(bytes: &[u8]) -> u32 {
    sum(bytes).rotate_right(15).wrapping_add(MASK_DELTA)
}

/// Writes the sums of parts of `data`, in parallel: part i is `length[i]` bytes from `begin[i]`.
///
/// # Errors
/// The number of the first part that does not lie in `data`.
pub fn sums(data: &[u8], begin: &[i64], length: &[i64], out: &mut [u32]) -> Result<(), usize> {
    let parts = begin.par_iter().zip(length).zip(out).enumerate().with_min_len(PARTS_PER_TASK);
    let failed = parts.map(|(part, ((&begin, &length), out))| sum_of(data, begin, length, out).ok_or(part));
    failed.find_map_first(Result::err).map_or(Ok(()), Err)
}

/// The same in the calling thread, for few parts.
///
/// # Errors
/// As [`sums`].
pub fn sums_in_turn(data: &[u8], begin: &[i64], length: &[i64], out: &mut [u32]) -> Result<(), usize> {
    let mut parts = begin.iter().zip(length).zip(out).enumerate();
    parts.try_for_each(|(part, ((&begin, &length), out))| sum_of(data, begin, length, out).ok_or(part))
}

fn sum_of(data: &[u8], begin: i64, length: i64, out: &mut u32) -> Option<()> {
    let first = usize::try_from(begin).ok()?;
    let end = first.checked_add(usize::try_from(length).ok()?)?;
    *out = sum(data.get(first..end)?);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_and_rfc_values_hold() {
        assert_eq!(sum(b"123456789"), 0xE306_9283);
        assert_eq!(sum(&[0; 32]), 0x8A91_36AA);
        assert_eq!(sum(&[0xFF; 32]), 0x62A8_AB43);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(sum(&rising), 0x46DD_794E);
    }

    #[test]
    fn parts_have_their_own_sums() {
        let (data, mut out) = (b"123456789123456789", [0; 2]);
        sums(data, &[0, 9], &[9, 9], &mut out).unwrap();
        assert_eq!(out, [0xE306_9283; 2]);
        for sums in [sums, sums_in_turn] {
            assert_eq!(sums(data, &[0, 10], &[9, 9], &mut out), Err(1));
            sums(data, &[9, 0], &[9, 0], &mut out).unwrap();
            assert_eq!(out, [0xE306_9283, 0]);
        }
    }

    #[test]
    fn every_length_agrees_with_the_bit_by_bit_sum() {
        let data: Vec<u8> = (0..700_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for length in 0..data.len() {
            let mut state = !0_u32;
            for &byte in &data[..length] {
                state ^= u32::from(byte);
                for _ in 0..8 {
                    state = (state >> 1) ^ (0x82F6_3B78 & (state & 1).wrapping_neg());
                }
            }
            assert_eq!(sum(&data[..length]), !state, "length {length}");
        }
    }
}
