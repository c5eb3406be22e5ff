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
        table[i] = super::header::ZIGZAG[i];
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

/// The signed value behind the code of `entry` (T.81, figure F.12), without a branch; 0 for size 0.
#[inline(always)]
fn value(buffer: u64, entry: u32) -> i32 {
    let size = entry >> 16;
    let rest = buffer.wrapping_shl(entry >> 8);
    let magnitude = (rest >> 1).wrapping_shr(63u32.wrapping_sub(size)) as i64;
    let is_negative = !((rest as i64) >> 63);
    (magnitude + (is_negative & (1 - 1i64.wrapping_shl(size)))) as i32
}

/// The difference to the DC prediction. Uses at most 31 of the bits that must be there.
#[inline(always)]
fn difference(bits: &mut Bits, table: &HuffmanTable) -> Result<i32, BadCode> {
    let mut entry = lookup(table, bits);
    if entry & SPECIAL != 0 {
        entry = table.long_entry((bits.buffer >> 48) as u32).filter(|e| e & SPECIAL == 0).ok_or(BadCode)?;
    }
    let difference = value(bits.buffer, entry);
    bits.consume(entry);
    Ok(difference)
}

/// What one AC symbol did.
enum Step {
    More,
    End,
}

/// Handles one AC symbol; `k` is the position of the last coefficient. With `block` the value is stored.
#[inline(always)]
fn step(bits: &mut Bits, table: &HuffmanTable, k: &mut u32, block: Option<&mut Block>) -> Result<Step, BadCode> {
    let mut entry = lookup(table, bits);
    if entry & SPECIAL != 0 {
        if entry & 63 == 0 {
            bits.refill();
            entry = table.long_entry((bits.buffer >> 48) as u32).ok_or(BadCode)?;
        }
        if entry & END_OF_BLOCK != 0 {
            bits.consume(entry);
            return Ok(Step::End);
        }
    }
    *k += (entry >> 24) & 31;
    if let Some(block) = block {
        let natural = NATURAL[(*k & 127) as usize] & 63;
        // 16 zeros have size 0 and store the value 0.
        block.0[usize::from(natural)] = value(bits.buffer, entry) as i16;
    }
    bits.consume(entry);
    if *k >= 63 {
        return Ok(Step::End);
    }
    if entry & SPECIAL != 0 || (entry >> 8) & 63 > LOOKUP_BITS {
        bits.refill();
    }
    Ok(Step::More)
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
        if let Step::End = step(bits, ac, &mut k, Some(block))? {
            return Ok(k == 0);
        }
        if let Step::End = step(bits, ac, &mut k, Some(block))? {
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
    let mut k = 0;
    loop {
        bits.refill();
        if let Step::End = step(bits, ac, &mut k, None)? {
            return Ok(());
        }
        if let Step::End = step(bits, ac, &mut k, None)? {
            return Ok(());
        }
    }
}
