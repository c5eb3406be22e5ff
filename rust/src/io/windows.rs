//! Rows of one size that begin at any byte of files or buffers: token windows, rows of arrays on disk.
//!
//! Windows may overlap. What is stored in another byte order, or as narrower integers than wanted, is converted on the way.

use rayon::ThreadPool;

use crate::core::pool::find_first;
use crate::core::prefetch::prefetch;

/// Bytes that one task of the pool copies: enough to make handing it over cheap, few enough for small batches to be shared.
const BYTES_PER_TASK: usize = 1 << 17;
/// Bytes of the next row that are prefetched while this one is copied, where it begins and where its second page does: the
/// processor itself does not look beyond a page, nor at another place.
const AHEAD_BYTES: usize = 512;
const PAGE_BYTES: usize = 4096;

/// Writes a stored row to its place; both are whole numbers of values.
type Convert = fn(&[u8], &mut [u8]);

/// The conversion of a row: bytes of a stored and of a wanted value, and the function that converts.
#[derive(Clone, Copy)]
pub struct Conversion {
    stored: usize,
    wanted: usize,
    convert: Convert,
}

impl Conversion {
    /// From the stored to the wanted NumPy type ("<u2", ">f4", "|u1"): the same type, the same type in the other byte order, or
    /// integers that become `<i4`, `<i8` or `<u4` without a loss. None for all else.
    #[must_use]
    pub fn between(stored: &str, wanted: &str) -> Option<Self> {
        let (order, from) = (stored.get(..1)?, stored.get(1..)?);
        let (wanted_order, to) = (wanted.get(..1)?, wanted.get(1..)?);
        let bytes = |kind: &str| kind.get(1..)?.parse::<usize>().ok().filter(|bytes| (1..=64).contains(bytes));
        let (narrow, wide) = (bytes(from)?, bytes(to)?);
        let convert: Convert = match (from, to) {
            _ if from == to && order == wanted_order => copy,
            _ if from == to && wanted_order != ">" => swap_of(from)?,
            _ if wanted_order == ">" => return None,
            _ => widen_of(from, to, order == ">")?,
        };
        Some(Self { stored: narrow, wanted: wide, convert })
    }

    /// Bytes of `row_bytes` stored bytes once converted; None if these are no whole number of values, or too many.
    #[must_use]
    pub fn wanted_bytes(&self, row_bytes: usize) -> Option<usize> {
        row_bytes.is_multiple_of(self.stored).then_some(())?;
        (row_bytes / self.stored).checked_mul(self.wanted)
    }
}

fn copy(stored: &[u8], out: &mut [u8]) {
    out.copy_from_slice(stored);
}

/// The other byte order; a complex number is two values.
fn swap_of(kind: &str) -> Option<Convert> {
    Some(match kind {
        "b1" | "u1" | "i1" => copy,
        "u2" | "i2" | "f2" => swap::<2>,
        "u4" | "i4" | "f4" | "c8" => swap::<4>,
        "u8" | "i8" | "f8" | "c16" => swap::<8>,
        _ => return None,
    })
}

fn swap<const BYTES: usize>(stored: &[u8], out: &mut [u8]) {
    for (value, place) in stored.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut::<BYTES>().0) {
        *place = *value;
        place.reverse();
    }
}

/// Functions from every integer type to wider ones, in both byte orders.
macro_rules! widen_table {
    ($from:ident, $to:ident, $big:ident: $($name:literal $type:ty => $($wide:literal $into:ty),+;)+) => {
        match ($from, $to) {
            $($(($name, $wide) => Some(if $big {
                |stored, out| widen(stored, out, |value| <$into>::from(<$type>::from_be_bytes(*value)).to_le_bytes())
            } else {
                |stored, out| widen(stored, out, |value| <$into>::from(<$type>::from_le_bytes(*value)).to_le_bytes())
            }),)+)+
            _ => None,
        }
    };
}

fn widen_of(from: &str, to: &str, big: bool) -> Option<Convert> {
    widen_table!(from, to, big:
        "u1" u8 => "u2" u16, "u4" u32, "i4" i32, "i8" i64;
        "i1" i8 => "i4" i32, "i8" i64;
        "u2" u16 => "u4" u32, "i4" i32, "i8" i64;
        "i2" i16 => "i4" i32, "i8" i64;
        "u4" u32 => "i8" i64;
        "i4" i32 => "i8" i64;
    )
}

fn widen<const FROM: usize, const TO: usize>(stored: &[u8], out: &mut [u8], one: impl Fn(&[u8; FROM]) -> [u8; TO]) {
    for (value, place) in stored.as_chunks::<FROM>().0.iter().zip(out.as_chunks_mut::<TO>().0) {
        *place = one(value);
    }
}

/// Prefetches the beginning of a row, and of its second page.
fn ask_for(row: &[u8]) {
    let second = PAGE_BYTES - row.as_ptr().addr() % PAGE_BYTES;
    for part in [row, row.get(second..).unwrap_or_default()] {
        prefetch(&part[..part.len().min(AHEAD_BYTES)]);
    }
}

/// Copies `row_bytes` bytes from byte `start[i]` of `part(which[i])` to row i of `out`, converted.
///
/// # Errors
/// The first place whose part, or whose bytes in it, are not there.
pub fn copy_windows<'a>(
    part: impl Fn(usize) -> Option<&'a [u8]> + Sync,
    which: &[i64],
    start: &[i64],
    row_bytes: usize,
    conversion: Conversion,
    out: &mut [u8],
    pool: Option<&ThreadPool>,
) -> Result<(), usize> {
    let width = conversion.wanted_bytes(row_bytes).unwrap_or(0);
    if width == 0 {
        return Ok(());
    }
    let window = |part_number: i64, first: i64| {
        let first = usize::try_from(first).ok()?;
        part(usize::try_from(part_number).ok()?)?.get(first..first.checked_add(row_bytes)?)
    };
    let rows_per_task = (BYTES_PER_TASK / width).max(1);
    let places = which.chunks(rows_per_task).zip(start.chunks(rows_per_task));
    let tasks: Vec<_> = places.zip(out.chunks_mut(rows_per_task * width)).collect();
    let bad = find_first(pool, tasks, |task, ((which, start), out)| {
        let mut next = which.iter().zip(start).skip(1);
        let mut rows = which.iter().zip(start).zip(out.chunks_exact_mut(width));
        let bad = rows.position(|((&number, &first), place)| {
            if let Some(bytes) = next.next().and_then(|(&number, &first)| window(number, first)) {
                ask_for(bytes);
            }
            window(number, first).map(|bytes| (conversion.convert)(bytes, place)).is_none()
        });
        bad.map(|place| task * rows_per_task + place)
    });
    bad.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(data: &[u8], start: &[i64], row_bytes: usize, from: &str, to: &str) -> Result<Vec<u8>, usize> {
        let conversion = Conversion::between(from, to).unwrap();
        let mut out = vec![0; start.len() * conversion.wanted_bytes(row_bytes).unwrap()];
        let which = vec![0; start.len()];
        let part = |number| (number == 0).then_some(data);
        copy_windows(part, &which, start, row_bytes, conversion, &mut out, None).map(|()| out)
    }

    #[test]
    fn windows_overlap_and_begin_at_any_byte() {
        let data: Vec<u8> = (0..100).collect();
        assert_eq!(windows(&data, &[1, 3, 97], 3, "|u1", "|u1").unwrap(), [1, 2, 3, 3, 4, 5, 97, 98, 99]);
    }

    #[test]
    fn values_are_swapped_and_widened() {
        assert_eq!(windows(&[1, 2, 3, 4], &[0], 4, ">u2", "<u2").unwrap(), [2, 1, 4, 3]);
        assert_eq!(windows(&[1, 2, 3, 4, 5, 6, 7, 8], &[0], 8, ">c8", "<c8").unwrap(), [4, 3, 2, 1, 8, 7, 6, 5]);
        assert_eq!(windows(&[255, 255, 1, 0], &[0, 2], 2, "<u2", "<i4").unwrap(), [255, 255, 0, 0, 1, 0, 0, 0]);
        assert_eq!(windows(&[255, 254], &[0], 2, ">i2", "<i8").unwrap(), (-2_i64).to_le_bytes());
        assert_eq!(windows(&[200], &[0], 1, "|u1", "<u2").unwrap(), [200, 0]);
    }

    #[test]
    fn what_would_lose_values_is_no_conversion() {
        for (from, to) in [("<u4", "<i4"), ("<i8", "<i4"), ("<f4", "<i8"), ("<u2", ">u2"), ("<V7", ">V7"), ("", "<u2")]
        {
            assert!(Conversion::between(from, to).is_none(), "{from} {to}");
        }
        assert!(Conversion::between("<u2", "<u2").unwrap().wanted_bytes(3).is_none());
    }

    #[test]
    fn a_window_outside_is_an_error() {
        let data = [0; 10];
        assert_eq!(windows(&data, &[0, 7], 4, "|u1", "|u1"), Err(1));
        assert_eq!(windows(&data, &[0, 6, -1], 4, "|u1", "|u1"), Err(2));
        assert_eq!(windows(&data, &[i64::MAX], 4, "|u1", "|u1"), Err(0));
        let many: Vec<i64> = (0..100_000).map(|row| if row == 77_777 { 8 } else { row % 6 }).collect();
        assert_eq!(windows(&data, &many, 4, "|u1", "|u1"), Err(77_777));
    }
}
