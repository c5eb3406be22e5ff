//! One block of entropy-coded coefficients (ITU T.81, F.2.2).

use super::bits::Bits;
use super::huffman::{
    BLOCK_ENDS, END_OF_BLOCK, HuffmanTable, LOOKUP_BITS, LOOKUPS_PER_REFILL, NOT_SHOWN, PAIR_BITS, SPECIAL,
};
use super::idct::Block;

/// Position in a block's bits to natural position.
static NATURAL: [u8; 64] = super::segments::ZIGZAG;

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
    let rest = buffer.wrapping_shl(entry >> 16);
    // A leading 0 means a negative number: minus the complement of its bits.
    let is_negative = !((rest as i64) >> 63);
    let magnitude = (rest ^ is_negative as u64).wrapping_shr(entry >> 24) as i64;
    (magnitude ^ is_negative) - is_negative
}

/// The difference to the DC prediction. Uses at most 31 of the bits that must be there.
#[inline(always)]
fn difference(bits: &mut Bits, table: &HuffmanTable) -> Result<i32, BadCode> {
    let mut entry = lookup(table, bits);
    if entry & SPECIAL != 0 {
        entry = table.long_entry((bits.buffer >> 48) as u32).filter(|e| e & SPECIAL == 0).ok_or(BadCode)?;
    }
    let has_value = entry >> 24 != 0;
    let difference = if has_value { value(bits.buffer, entry) as i32 } else { 0 };
    bits.consume(entry);
    Ok(difference)
}

/// Stores a coefficient.
#[inline(always)]
fn store(block: &mut Block, k: u32, value: i16) {
    block.0[usize::from(NATURAL[(k & 63) as usize] & 63)] = value;
}

/// Handles an AC symbol whose entry is special; `k` is the position of the last coefficient. Whether the block goes on.
#[inline(always)]
fn special(
    bits: &mut Bits,
    table: &HuffmanTable,
    mut entry: u32,
    k: &mut u32,
    mut block: Option<&mut Block>,
) -> Result<bool, BadCode> {
    if entry & END_OF_BLOCK == 0 {
        bits.refill();
        if entry & 63 == 0 {
            entry = table.long_entry((bits.buffer >> 48) as u32).ok_or(BadCode)?;
        }
    }
    let value = if entry >> 24 != 0 { value(bits.buffer, entry) as i16 } else { 0 };
    bits.consume(entry);
    if entry & END_OF_BLOCK != 0 {
        return Ok(false);
    }
    *k += entry >> 8 & 255;
    if let Some(block) = &mut block {
        // A run that leads behind the end goes to the last coefficient, as in libjpeg.
        store(block, (*k).min(63), value);
    }
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
    'refilled: loop {
        bits.refill();
        for _ in 0..LOOKUPS_PER_REFILL {
            let pair = ac.pairs[(bits.buffer >> (64 - PAIR_BITS)) as usize];
            let next = k + (pair >> 48) as u32;
            if pair & NOT_SHOWN != 0 || next >= 63 {
                match one(bits, ac, &mut k, block)? {
                    Some(is_flat) => return Ok(is_flat),
                    None => continue 'refilled,
                }
            }
            bits.consume(pair as u32);
            store(block, k + (pair >> 8 & 255) as u32, (pair >> 16) as i16);
            store(block, next, (pair >> 32) as i16);
            k = next;
            if pair & BLOCK_ENDS != 0 {
                return Ok(false);
            }
        }
    }
}

/// Handles one AC symbol; whether the block has a DC coefficient only if it ends here, `None` if it goes on.
#[inline(always)]
fn one(bits: &mut Bits, table: &HuffmanTable, k: &mut u32, block: &mut Block) -> Result<Option<bool>, BadCode> {
    let entry = lookup(table, bits);
    if entry & SPECIAL != 0 {
        return special(bits, table, entry, k, Some(block)).map(|goes_on| (!goes_on).then_some(*k == 0));
    }
    bits.consume(entry);
    *k += entry >> 8 & 255;
    store(block, (*k).min(63), (entry >> 16) as i16);
    Ok((*k >= 63).then_some(false))
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
    let mut k = 0;
    'refilled: loop {
        bits.refill();
        for _ in 0..LOOKUPS_PER_REFILL {
            let skip = u32::from(ac.skips[(bits.buffer >> (64 - LOOKUP_BITS)) as usize]);
            let next = k + (skip >> 8);
            if skip == 0 || next >= 63 {
                if !step_over(bits, ac, &mut k)? {
                    return Ok(());
                }
                continue 'refilled;
            }
            bits.consume(skip);
            k = next;
            if skip & END_OF_BLOCK != 0 {
                return Ok(());
            }
        }
    }
}

/// Passes over one AC symbol; whether the block goes on.
#[inline(always)]
fn step_over(bits: &mut Bits, table: &HuffmanTable, k: &mut u32) -> Result<bool, BadCode> {
    let entry = lookup(table, bits);
    if entry & SPECIAL != 0 {
        return special(bits, table, entry, k, None);
    }
    bits.consume(entry);
    *k += entry >> 8 & 255;
    Ok(*k < 63)
}
