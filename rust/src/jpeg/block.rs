//! One block of entropy-coded coefficients (ITU T.81, F.2.2).

use super::bits::Bits;
use super::huffman::{
    BLOCK_ENDS, END_OF_BLOCK, HuffmanTable, LOOKUP_BITS, LOOKUPS_PER_REFILL, NOT_SHOWN, PAIR_BITS, SKIP_BITS, Skips,
};
use super::idct::Block;

/// Position in a block's bits to natural position.
static NATURAL: [u8; 64] = super::segments::ZIGZAG;

/// The data holds a code that its Huffman table does not have.
#[derive(Clone, Copy, Debug)]
pub(super) struct BadCode;

/// The entry of the next symbol, whose code must be there.
#[inline(always)]
fn next_entry(bits: &Bits, table: &HuffmanTable) -> Result<u32, BadCode> {
    let entry = table.lookup[(bits.buffer >> (64 - LOOKUP_BITS)) as usize];
    if entry != 0 { Ok(entry) } else { table.long_entry((bits.buffer >> 48) as u32).ok_or(BadCode) }
}

/// The signed value (T.81, figure F.12) behind the first `before` bits of `buffer`, of 63 - `rest` bits; both modulo 64.
#[inline(always)]
fn value(buffer: u64, before: u32, rest: u32) -> i64 {
    let bits = buffer.wrapping_shl(before);
    // A leading 0 means a negative number: minus the complement of its bits. Without bits it is 0.
    let is_negative = !((bits as i64) >> 63);
    let magnitude = ((bits ^ is_negative as u64) >> 1).wrapping_shr(rest) as i64;
    (magnitude ^ is_negative) - is_negative
}

/// The difference to the DC prediction. Uses at most 31 of the bits that must be there.
#[inline(always)]
fn difference(bits: &mut Bits, table: &HuffmanTable) -> Result<i32, BadCode> {
    let entry = next_entry(bits, table)?;
    let difference = value(bits.buffer, entry >> 16, entry >> 24) as i32;
    bits.consume(entry);
    Ok(difference)
}

/// Stores a coefficient.
#[inline(always)]
fn store(block: &mut Block, k: u32, value: i16) {
    block.0[usize::from(NATURAL[(k & 63) as usize] & 63)] = value;
}

/// Reads one AC symbol; `k` is the position of the last coefficient. Whether the block goes on.
#[inline(always)]
fn one(bits: &mut Bits, table: &HuffmanTable, k: &mut u32, block: Option<&mut Block>) -> Result<bool, BadCode> {
    bits.refill();
    let entry = next_entry(bits, table)?;
    let value = value(bits.buffer, entry >> 16, entry >> 24) as i16;
    bits.consume(entry);
    if entry & END_OF_BLOCK != 0 {
        return Ok(false);
    }
    *k += entry >> 8 & 255;
    if let Some(block) = block {
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
    start_block(bits, dc, prediction, block)?;
    finish_block(bits, ac, 0, block)
}

/// Decodes the DC coefficient of a block.
#[inline(always)]
fn start_block(bits: &mut Bits, dc: &HuffmanTable, prediction: &mut i32, block: &mut Block) -> Result<(), BadCode> {
    block.0 = [0; 64];
    bits.refill();
    *prediction = prediction.wrapping_add(difference(bits, dc)?);
    block.0[0] = *prediction as i16;
    bits.refill();
    Ok(())
}

/// Decodes the AC coefficients behind position `k`; returns whether the block has a DC coefficient only. A refill came before.
#[inline(always)]
fn finish_block(bits: &mut Bits, ac: &HuffmanTable, mut k: u32, block: &mut Block) -> Result<bool, BadCode> {
    'refilled: loop {
        for _ in 0..LOOKUPS_PER_REFILL {
            let pair = ac.pairs[(bits.buffer >> (64 - PAIR_BITS)) as usize];
            if is_unusual(pair, k) {
                if !unusual(bits, ac, pair, &mut k, block)? {
                    return Ok(k == 0);
                }
                bits.refill();
                continue 'refilled;
            }
            usual(bits, pair, &mut k, block);
            if pair & BLOCK_ENDS != 0 {
                return Ok(false);
            }
        }
        bits.refill();
    }
}

/// Decodes a block from each of two places at once, so that neither waits for the other's table; as [`decode_block`] does.
#[inline(always)]
pub(super) fn decode_two(
    [one, two]: [&mut Bits; 2],
    dc: &HuffmanTable,
    ac: &HuffmanTable,
    predictions: [&mut i32; 2],
    [first, second]: [&mut Block; 2],
) -> Result<[bool; 2], BadCode> {
    start_block(one, dc, predictions[0], first)?;
    start_block(two, dc, predictions[1], second)?;
    let mut k = [0; 2];
    'refilled: loop {
        for _ in 0..LOOKUPS_PER_REFILL {
            let pairs = [one.buffer, two.buffer].map(|buffer| ac.pairs[(buffer >> (64 - PAIR_BITS)) as usize]);
            if is_unusual(pairs[0], k[0]) || is_unusual(pairs[1], k[1]) {
                if is_unusual(pairs[0], k[0]) && !unusual(one, ac, pairs[0], &mut k[0], first)? {
                    two.refill();
                    return Ok([k[0] == 0, finish_block(two, ac, k[1], second)?]);
                }
                if is_unusual(pairs[1], k[1]) && !unusual(two, ac, pairs[1], &mut k[1], second)? {
                    one.refill();
                    return Ok([finish_block(one, ac, k[0], first)?, k[1] == 0]);
                }
                one.refill();
                two.refill();
                continue 'refilled;
            }
            usual(one, pairs[0], &mut k[0], first);
            usual(two, pairs[1], &mut k[1], second);
            if (pairs[0] | pairs[1]) & BLOCK_ENDS != 0 {
                one.refill();
                two.refill();
                return Ok([
                    pairs[0] & BLOCK_ENDS == 0 && finish_block(one, ac, k[0], first)?,
                    pairs[1] & BLOCK_ENDS == 0 && finish_block(two, ac, k[1], second)?,
                ]);
            }
        }
        one.refill();
        two.refill();
    }
}

/// Whether an entry of `pairs` does not give two coefficients that lie before the last.
#[inline(always)]
fn is_unusual(pair: u64, k: u32) -> bool {
    pair & NOT_SHOWN != 0 || k + (pair >> 48) as u32 >= 63
}

/// Stores the coefficients of an entry of `pairs`.
#[inline(always)]
fn usual(bits: &mut Bits, pair: u64, k: &mut u32, block: &mut Block) {
    let next = *k + (pair >> 48) as u32;
    store(block, *k + (pair >> 8 & 255) as u32, (pair >> 16) as i16);
    store(block, next, value(bits.buffer, (pair >> 32) as u32, (pair >> 40) as u32) as i16);
    bits.consume(pair as u32);
    *k = next;
}

/// Reads an end of block, or one symbol; whether the block goes on.
#[inline(always)]
fn unusual(bits: &mut Bits, ac: &HuffmanTable, pair: u64, k: &mut u32, block: &mut Block) -> Result<bool, BadCode> {
    if pair & (NOT_SHOWN | BLOCK_ENDS) == NOT_SHOWN | BLOCK_ENDS {
        bits.consume(pair as u32);
        return Ok(false);
    }
    one(bits, ac, k, Some(block))
}

/// Passes over a block, keeping its DC prediction only; `skips` are those of `ac`.
#[inline(always)]
pub(super) fn skip_block(
    bits: &mut Bits,
    dc: &HuffmanTable,
    ac: &HuffmanTable,
    skips: &Skips,
    prediction: &mut i32,
) -> Result<(), BadCode> {
    bits.refill();
    *prediction = prediction.wrapping_add(difference(bits, dc)?);
    let mut k = 0;
    bits.refill();
    'refilled: loop {
        for _ in 0..LOOKUPS_PER_REFILL {
            let skip = u32::from(skips[(bits.buffer >> (64 - SKIP_BITS)) as usize]);
            let next = k + (skip >> 8);
            if skip == 0 || next >= 63 {
                if !one(bits, ac, &mut k, None)? {
                    return Ok(());
                }
                bits.refill();
                continue 'refilled;
            }
            bits.consume(skip);
            k = next;
            if skip & END_OF_BLOCK != 0 {
                return Ok(());
            }
        }
        bits.refill();
    }
}
