//! Rows picked by number: the native half of shuffling what is in memory already.

use rayon::ThreadPool;

use crate::core::pool::find_first;

/// Bytes that one task of the pool copies, so that small gathers stay on few threads.
const BYTES_PER_TASK: usize = 1 << 16;

/// Copies row `rows[i]` of `source` (`row_bytes` each) to place i of `out`.
///
/// # Errors
/// The first place whose row number is not in `source`.
pub fn rows(
    source: &[u8],
    row_bytes: usize,
    rows: &[i64],
    out: &mut [u8],
    pool: Option<&ThreadPool>,
) -> Result<(), usize> {
    match row_bytes {
        0 => Ok(()),
        1 => fixed::<1>(source, rows, out, pool),
        2 => fixed::<2>(source, rows, out, pool),
        4 => fixed::<4>(source, rows, out, pool),
        8 => fixed::<8>(source, rows, out, pool),
        16 => fixed::<16>(source, rows, out, pool),
        _ => any(source, row_bytes, rows, out, pool),
    }
}

fn fixed<const BYTES: usize>(
    source: &[u8],
    rows: &[i64],
    out: &mut [u8],
    pool: Option<&ThreadPool>,
) -> Result<(), usize> {
    let (source, _) = source.as_chunks::<BYTES>();
    let (out, _) = out.as_chunks_mut::<BYTES>();
    copy(rows, out, BYTES_PER_TASK / BYTES, pool, |row, out: &mut [u8; BYTES]| match source.get(row) {
        Some(value) => {
            *out = *value;
            true
        }
        None => false,
    })
}

fn any(source: &[u8], row_bytes: usize, rows: &[i64], out: &mut [u8], pool: Option<&ThreadPool>) -> Result<(), usize> {
    let mut places: Vec<&mut [u8]> = out.chunks_exact_mut(row_bytes).collect();
    copy(rows, &mut places, (BYTES_PER_TASK / row_bytes).max(1), pool, |row, out: &mut &mut [u8]| {
        let bytes = row.checked_mul(row_bytes).and_then(|start| source.get(start..start + row_bytes));
        bytes.is_some_and(|bytes| {
            out.copy_from_slice(bytes);
            true
        })
    })
}

fn copy<T: Send>(
    rows: &[i64],
    out: &mut [T],
    rows_per_task: usize,
    pool: Option<&ThreadPool>,
    put: impl Fn(usize, &mut T) -> bool + Sync,
) -> Result<(), usize> {
    let tasks = rows.chunks(rows_per_task).zip(out.chunks_mut(rows_per_task)).collect();
    let bad = find_first(pool, tasks, |task, (rows, out): (&[i64], &mut [T])| {
        let mut pairs = rows.iter().zip(out);
        pairs
            .position(|(&row, out)| !usize::try_from(row).is_ok_and(|row| put(row, out)))
            .map(|place| task * rows_per_task + place)
    });
    bad.map_or(Ok(()), Err)
}

/// Copies spans of `buffers` one after another into `out`, whose length must be the sum of theirs.
///
/// # Errors
/// The first span that does not lie in its buffer.
pub fn spans(buffers: &[&[u8]], which: &[i64], offset: &[i64], length: &[i64], out: &mut [u8]) -> Result<(), usize> {
    let mut rest = out;
    for row in 0..which.len() {
        let bytes = span(buffers, which[row], offset[row], length[row]).ok_or(row)?;
        let (place, after) = rest.split_at_mut_checked(bytes.len()).ok_or(row)?;
        place.copy_from_slice(bytes);
        rest = after;
    }
    Ok(())
}

/// The bytes of one span; None if it does not lie in its buffer.
#[must_use]
pub fn span<'a>(buffers: &[&'a [u8]], which: i64, offset: i64, length: i64) -> Option<&'a [u8]> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    buffers.get(usize::try_from(which).ok()?)?.get(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_every_width_are_picked() {
        let pool = crate::core::pool::shared(2).unwrap();
        for width in [1_usize, 2, 3, 4, 8, 16, 100] {
            let source: Vec<u8> = (0..50 * width).map(|byte| (byte % 251) as u8).collect();
            let numbers: Vec<i64> = (0..50).rev().collect();
            let mut out = vec![0; 50 * width];
            rows(&source, width, &numbers, &mut out, Some(&pool)).unwrap();
            for (place, &number) in numbers.iter().enumerate() {
                let start = usize::try_from(number).unwrap() * width;
                assert_eq!(out[place * width..][..width], source[start..][..width]);
            }
        }
    }

    #[test]
    fn a_row_outside_is_an_error() {
        assert_eq!(rows(&[0; 80], 8, &[0, 10], &mut [0; 16], None), Err(1));
        assert_eq!(rows(&[0; 80], 8, &[-1, 0], &mut [0; 16], None), Err(0));
        assert_eq!(rows(&[0; 9], 3, &[0, 3], &mut [0; 6], None), Err(1));
    }

    #[test]
    fn spans_are_joined() {
        let mut out = [0; 5];
        spans(&[b"hello", b"world"], &[1, 0], &[3, 0], &[2, 3], &mut out).unwrap();
        assert_eq!(&out, b"ldhel");
        assert_eq!(spans(&[b"hello"], &[0], &[3], &[3], &mut out), Err(0));
    }
}
