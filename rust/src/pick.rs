//! Rows picked by number out of several tables' columns: what a shuffle among open blocks comes to.

use rayon::prelude::*;

/// Bytes that one task of the pool copies, so that small picks stay on few threads.
const BYTES_PER_TASK: usize = 1 << 16;

/// Copies row `rows[i]` (`row_bytes` each) of `parts[which[i]]` to place i of `out`; `which` and `rows` are equally long.
///
/// # Errors
/// The first place whose part or row is not there.
pub fn pick(parts: &[&[u8]], row_bytes: usize, which: &[i64], rows: &[i64], out: &mut [u8]) -> Result<(), usize> {
    match row_bytes {
        0 => Ok(()),
        1 => fixed::<1>(parts, which, rows, out),
        2 => fixed::<2>(parts, which, rows, out),
        4 => fixed::<4>(parts, which, rows, out),
        8 => fixed::<8>(parts, which, rows, out),
        _ => any(parts, row_bytes, which, rows, out),
    }
}

fn fixed<const BYTES: usize>(parts: &[&[u8]], which: &[i64], rows: &[i64], out: &mut [u8]) -> Result<(), usize> {
    let parts: Vec<&[[u8; BYTES]]> = parts.iter().map(|part| part.as_chunks::<BYTES>().0).collect();
    let (out, _) = out.as_chunks_mut::<BYTES>();
    in_tasks(which, rows, out, 1, BYTES_PER_TASK / BYTES, |part, row, place: &mut [[u8; BYTES]]| {
        parts.get(part).and_then(|part| part.get(row)).map(|value| place[0] = *value)
    })
}

fn any(parts: &[&[u8]], row_bytes: usize, which: &[i64], rows: &[i64], out: &mut [u8]) -> Result<(), usize> {
    in_tasks(which, rows, out, row_bytes, (BYTES_PER_TASK / row_bytes).max(1), |part, row, place: &mut [u8]| {
        let start = row.checked_mul(row_bytes)?;
        parts.get(part)?.get(start..start.checked_add(row_bytes)?).map(|bytes| place.copy_from_slice(bytes))
    })
}

/// Calls `put(part, row, place)` for every row, in tasks; a place is `width` entries of `out`.
fn in_tasks<T: Send>(
    which: &[i64],
    rows: &[i64],
    out: &mut [T],
    width: usize,
    rows_per_task: usize,
    put: impl Fn(usize, usize, &mut [T]) -> Option<()> + Sync,
) -> Result<(), usize> {
    let tasks = which.par_chunks(rows_per_task).zip(rows.par_chunks(rows_per_task));
    let bad = tasks.zip(out.par_chunks_mut(rows_per_task * width)).enumerate().find_map_first(
        |(task, ((which, rows), out))| {
            let mut places = which.iter().zip(rows).zip(out.chunks_exact_mut(width));
            let bad = places.position(|((&part, &row), place)| {
                let numbers = usize::try_from(part).ok().zip(usize::try_from(row).ok());
                numbers.and_then(|(part, row)| put(part, row, place)).is_none()
            });
            bad.map(|place| task * rows_per_task + place)
        },
    );
    bad.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_every_width_come_from_their_part() {
        for width in [1_usize, 2, 3, 4, 8, 100] {
            let parts: Vec<Vec<u8>> =
                (0..3).map(|part| (0..5 * width).map(|byte| (part * 50 + byte / width) as u8).collect()).collect();
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            let mut out = vec![0; 4 * width];
            pick(&parts, width, &[2, 0, 1, 2], &[4, 0, 3, 1], &mut out).unwrap();
            let first: Vec<u8> = out.iter().step_by(width).copied().collect();
            assert_eq!(first, [104, 0, 53, 101], "width {width}");
            assert!(out.chunks(width).all(|row| row.iter().all(|byte| *byte == row[0])));
        }
    }

    #[test]
    fn a_place_outside_is_an_error() {
        let mut out = [0; 8];
        assert_eq!(pick(&[&[1; 8]], 4, &[0, 0], &[1, 2], &mut out), Err(1));
        assert_eq!(pick(&[&[1; 8]], 4, &[0, 1], &[1, 0], &mut out), Err(1));
        assert_eq!(pick(&[&[1; 9]], 3, &[0, 0], &[-1, 0], &mut out[..6]), Err(0));
    }
}
