//! One block of entropy-coded coefficients (ITU T.81, F.2.2).

use super::bits::Bits;
use super::huffman::{END_OF_BLOCK, HuffmanTable, LOOKUP_BITS, SPECIAL};
use super::idct::Block;

/// Position in a block's bits to natural position; runs that lead behind the end go to the last coefficient (as in
/// libjpeg), so that corrupt data needs no check.
static NATURAL: [u8; 128] = {
    let mut table = [63u8; 128];
    let mut i = 0;
    while i < 64 {
        table[i] = super::segments::ZIGZAG[i];
        i += 1;
    }
    table
};

/// The data holds a code that its Huffman table does not have.
#[derive(Clone, Copy, Debug)]
pub(super) struct BadCode;

#[inline(always)]
fn lookup(table: &HuffmanTable, bits: &Bits) -> u32 {
    table.lookup[(bits.buffer >> (64 - LOOKUP_BITS)) as usize]
}

/// The signed value (T.81, figure F.12) behind the code of `entry`, which must have a size of at least 1.
#[inline(always)]
fn value(buffer: u64, entry: u32) -> i64 {
    let rest = buffer.wrapping_shl(entry >> 8);
    // A leading 0 means a negative number: minus the complement of its bits.
    let is_negative = !((rest as i64) >> 63);
    let magnitude = (rest ^ is_negative as u64).wrapping_shr(entry >> 16) as i64;
    (magnitude ^ is_negative) - is_negative
}

/// The difference to the DC prediction. Uses at most 31 of the bits that must be there.
#[inline(always)]
fn difference(bits: &mut Bits, table: &HuffmanTable) -> Result<i32, BadCode> {
    let mut entry = lookup(table, bits);
    if entry & SPECIAL != 0 {
        entry = table.long_entry((bits.buffer >> 48) as u32).filter(|e| e & SPECIAL == 0).ok_or(BadCode)?;
    }
    let has_value = entry >> 16 != 0;
    let difference = if has_value { value(bits.buffer, entry) as i32 } else { 0 };
    bits.consume(entry);
    Ok(difference)
}

/// Handles an AC symbol that is not in the first table or has no value; whether the block goes on.
#[inline(always)]
fn special<const STORE: bool>(
    bits: &mut Bits,
    table: &HuffmanTable,
    mut entry: u32,
    k: &mut u32,
    block: &mut Block,
) -> Result<bool, BadCode> {
    if entry & END_OF_BLOCK != 0 {
        bits.consume(entry);
        return Ok(false);
    }
    if entry & 63 == 0 {
        bits.refill();
        entry = table.long_entry((bits.buffer >> 48) as u32).ok_or(BadCode)?;
        if entry & END_OF_BLOCK != 0 {
            bits.consume(entry);
            return Ok(false);
        }
    }
    *k += (entry >> 24) & 31;
    if STORE && entry & SPECIAL == 0 {
        block.0[usize::from(NATURAL[(*k & 127) as usize] & 63)] = value(bits.buffer, entry) as i16;
    }
    bits.consume(entry);
    bits.refill();
    Ok(*k < 63)
}

/// Handles one AC symbol; `k` is the position of the last coefficient. Whether the block goes on.
#[inline(always)]
fn step<const STORE: bool>(
    bits: &mut Bits,
    table: &HuffmanTable,
    k: &mut u32,
    block: &mut Block,
) -> Result<bool, BadCode> {
    let entry = lookup(table, bits);
    if entry & SPECIAL != 0 {
        return special::<STORE>(bits, table, entry, k, block);
    }
    *k += entry >> 24;
    if STORE {
        block.0[usize::from(NATURAL[(*k & 127) as usize] & 63)] = value(bits.buffer, entry) as i16;
    }
    bits.consume(entry);
    Ok(*k < 63)
}

/// Decodes a block; returns whether it has a DC coefficient only.
#[inline(always)]
pub(super) fn decode_block(
    bits: &mut Bits,
    dc: &HuffmanTable,
    ac: &HuffmanTable,
    prediction: &mut i32,
    block: &mut Block,
) -> Result<bool, BadCode> {
    block.0 = [0; 64];
    bits.refill();
    *prediction = prediction.wrapping_add(difference(bits, dc)?);
    block.0[0] = *prediction as i16;
    let mut k = 0;
    loop {
        bits.refill();
        if !step::<true>(bits, ac, &mut k, block)? {
            return Ok(k == 0);
        }
        if !step::<true>(bits, ac, &mut k, block)? {
            return Ok(false);
        }
    }
}

/// Passes over a block, keeping its DC prediction only.
#[inline(always)]
pub(super) fn skip_block(
    bits: &mut Bits,
    dc: &HuffmanTable,
    ac: &HuffmanTable,
    prediction: &mut i32,
) -> Result<(), BadCode> {
    bits.refill();
    *prediction = prediction.wrapping_add(difference(bits, dc)?);
    let mut unused = Block([0; 64]);
    let mut k = 0;
    loop {
        bits.refill();
        // Twice: two lookups drop at most 2 * 26 bits.
        for _ in 0..2 {
            let skip = u32::from(ac.skips[(bits.buffer >> (64 - LOOKUP_BITS)) as usize]);
            let next = k + (skip >> 8);
            if skip != 0 && next < 63 {
                bits.consume(skip);
                k = next;
            } else if !step::<false>(bits, ac, &mut k, &mut unused)? {
                return Ok(());
            }
        }
    }
}
