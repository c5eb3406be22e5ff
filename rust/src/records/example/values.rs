//! The values of a feature: how many there are, and into a column's bytes with them.
//!
//! ```text
//! BytesList { repeated bytes value = 1; }
//! FloatList { repeated float value = 1 [packed = true]; }      // 4 bytes each, little-endian
//! Int64List { repeated int64 value = 1 [packed = true]; }      // varints
//! ```
//!
//! Both encodings of numbers, packed and one by one, may occur, even mixed.

use half::{bf16, f16};

use super::element::Element;
use super::fault::Fault;
use super::feature::Found;
use super::kind::Kind;
use super::wire::{Cursor, Part, block_tag};
use crate::core::dtype::Dtype;

const PACKED: u64 = block_tag(1);
const ONE_VARINT: u64 = 1 << 3;
const ONE_FLOAT: u64 = 1 << 3 | 5;

/// How many values a feature holds.
///
/// # Errors
/// If its lists are not well formed.
#[inline]
pub fn count(bytes: &[u8], found: &Found) -> Result<usize, Fault> {
    let mut count = 0;
    match found.kind {
        Kind::None => {}
        Kind::Bytes => each_bytes(bytes, found, |_| {
            count += 1;
            Ok(())
        })?,
        Kind::Float => each_run(bytes, found, ONE_FLOAT, |run, packed| {
            count += if packed { floats_in(run)? } else { 1 };
            Ok(())
        })?,
        Kind::Int64 => each_run(bytes, found, ONE_VARINT, |run, packed| {
            count += if packed { varints_in(&bytes[run.start..run.end]) } else { 1 };
            Ok(())
        })?,
    }
    Ok(count)
}

fn floats_in(run: Part) -> Result<usize, Fault> {
    if run.len().is_multiple_of(4) {
        return Ok(run.len() / 4);
    }
    Err(Fault::Wire { at: run.start, what: "packed floats whose length is no multiple of 4" })
}

/// Every varint has one byte below 0x80, its last.
#[inline(always)]
fn varints_in(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    let whole: u32 = words.iter().map(|word| (!u64::from_le_bytes(*word) & 0x8080_8080_8080_8080).count_ones()).sum();
    whole as usize + rest.iter().filter(|&&byte| byte < 0x80).count()
}

/// Calls `each` with every value of a feature of bytes.
///
/// # Errors
/// What `each` returns, or that the lists are not well formed.
#[inline]
pub fn each_bytes(bytes: &[u8], found: &Found, mut each: impl FnMut(Part) -> Result<(), Fault>) -> Result<(), Fault> {
    found.lists(bytes, |mut list| {
        while !list.is_done() {
            let tag = list.varint()?;
            if tag == block_tag(1) {
                each(list.block()?)?;
            } else {
                list.skip(tag)?;
            }
        }
        Ok(())
    })
}

/// Calls `each` with every run of numbers: a packed block, or the place of a number with a tag of its own.
#[inline(always)]
fn each_run(
    bytes: &[u8],
    found: &Found,
    single: u64,
    mut each: impl FnMut(Part, bool) -> Result<(), Fault>,
) -> Result<(), Fault> {
    found.lists(bytes, |mut list| {
        while !list.is_done() {
            let tag = list.varint()?;
            if tag == PACKED {
                each(list.block()?, true)?;
            } else if tag == single {
                let start = list.at();
                if single == ONE_FLOAT {
                    list.fixed::<4>()?;
                } else {
                    list.varint()?;
                }
                each(Part { start, end: list.at() }, false)?;
            } else {
                list.skip(tag)?;
            }
        }
        Ok(())
    })
}

/// Stores the values of a feature in `out`, which has room for exactly as many as [`count`] says.
///
/// # Errors
/// If a value does not fit the dtype, or a list is not well formed.
#[inline]
pub fn fill(bytes: &[u8], found: &Found, dtype: Dtype, out: &mut [u8]) -> Result<(), Fault> {
    match dtype {
        Dtype::Float32 => numbers::<f32>(bytes, found, out),
        Dtype::Int64 => numbers::<i64>(bytes, found, out),
        Dtype::Bool => numbers::<bool>(bytes, found, out),
        Dtype::Int8 => numbers::<i8>(bytes, found, out),
        Dtype::Int16 => numbers::<i16>(bytes, found, out),
        Dtype::Int32 => numbers::<i32>(bytes, found, out),
        Dtype::Uint8 => numbers::<u8>(bytes, found, out),
        Dtype::Uint16 => numbers::<u16>(bytes, found, out),
        Dtype::Uint32 => numbers::<u32>(bytes, found, out),
        Dtype::Uint64 => numbers::<u64>(bytes, found, out),
        Dtype::Float16 => numbers::<f16>(bytes, found, out),
        Dtype::Bfloat16 => numbers::<bf16>(bytes, found, out),
        Dtype::Float64 => numbers::<f64>(bytes, found, out),
    }
}

/// Stores one number.
///
/// # Errors
/// If the dtype cannot hold it exactly.
pub fn store_integer(value: i64, dtype: Dtype, out: &mut [u8]) -> Result<(), Fault> {
    macro_rules! store {
        ($($name:ident => $type:ty),*) => {
            match dtype {
                $(Dtype::$name => <$type>::from_integer(value)?.store(out),)*
            }
        };
    }
    store!(Bool => bool, Int8 => i8, Int16 => i16, Int32 => i32, Int64 => i64, Uint8 => u8, Uint16 => u16, Uint32 => u32,
        Uint64 => u64, Float16 => f16, Bfloat16 => bf16, Float32 => f32, Float64 => f64);
    Ok(())
}

#[inline]
fn numbers<T: Element>(bytes: &[u8], found: &Found, out: &mut [u8]) -> Result<(), Fault> {
    match found.kind {
        Kind::Float if T::FLOAT => floats::<T>(bytes, found, out),
        Kind::Int64 => integers::<T>(bytes, found, out),
        Kind::None => Ok(()),
        kind => Err(Fault::Kind { found: kind }),
    }
}

#[inline]
fn floats<T: Element>(bytes: &[u8], found: &Found, out: &mut [u8]) -> Result<(), Fault> {
    let mut rest = out;
    each_run(bytes, found, ONE_FLOAT, |run, _| {
        let run = &bytes[run.start..run.end];
        let (place, after) = take(&mut rest, run.len() / 4 * T::SIZE)?;
        if T::IS_F32 && cfg!(target_endian = "little") {
            place.copy_from_slice(run);
        } else {
            for (value, out) in run.as_chunks::<4>().0.iter().zip(place.chunks_exact_mut(T::SIZE)) {
                T::from_float(f32::from_le_bytes(*value))?.store(out);
            }
        }
        rest = after;
        Ok(())
    })
}

#[inline]
fn integers<T: Element>(bytes: &[u8], found: &Found, out: &mut [u8]) -> Result<(), Fault> {
    let mut rest = out;
    each_run(bytes, found, ONE_VARINT, |run, packed| {
        let values = if packed { varints_in(&bytes[run.start..run.end]) } else { 1 };
        let (place, after) = take(&mut rest, values * T::SIZE)?;
        if values == run.len() {
            for (&byte, out) in bytes[run.start..run.end].iter().zip(place.chunks_exact_mut(T::SIZE)) {
                T::from_integer(i64::from(byte))?.store(out);
            }
        } else {
            let mut cursor = Cursor::new(bytes, run);
            for out in place.chunks_exact_mut(T::SIZE) {
                T::from_integer(cursor.long_varint()?.cast_signed())?.store(out);
            }
            if !cursor.is_done() {
                return Err(Fault::Wire { at: cursor.at(), what: "a number is cut off" });
            }
        }
        rest = after;
        Ok(())
    })
}

#[inline(always)]
fn take<'a>(rest: &mut &'a mut [u8], bytes: usize) -> Result<(&'a mut [u8], &'a mut [u8]), Fault> {
    let room = rest.len();
    std::mem::take(rest).split_at_mut_checked(bytes).ok_or(Fault::Count { found: room })
}
