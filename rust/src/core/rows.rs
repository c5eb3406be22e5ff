//! Fixed columns side by side: a table's rows as one run of bytes each, so that picking a row touches memory once
//! however many columns it has.

use rayon::ThreadPool;

use crate::core::pool::find_first;

/// Rows that are turned together: as many as fill a cache line with 4-byte values.
const TILE: usize = 16;
/// Bytes that one task of the pool copies, so that small tables stay on few threads.
const BYTES_PER_TASK: usize = 1 << 17;

/// Puts columns side by side: row i of `out` is row i of each column, `widths[c]` bytes each.
///
/// Every column holds as many rows as `out` has room for; columns of width 0 take none.
pub fn pack(columns: &[&[u8]], widths: &[usize], out: &mut [u8], pool: Option<&ThreadPool>) {
    let row_bytes: usize = widths.iter().sum();
    if row_bytes == 0 {
        return;
    }
    let rows_per_task = rows_per_task(row_bytes);
    let tasks = out.chunks_mut(rows_per_task * row_bytes).collect();
    find_first(pool, tasks, |task, out: &mut [u8]| {
        for (tile, out) in out.chunks_mut(TILE * row_bytes).enumerate() {
            let first = task * rows_per_task + tile * TILE;
            let mut place = 0;
            for (column, &width) in columns.iter().zip(widths) {
                pack_column(column, width, first, place, row_bytes, out);
                place += width;
            }
        }
        None::<()>
    });
}

fn pack_column(column: &[u8], width: usize, first: usize, place: usize, row_bytes: usize, out: &mut [u8]) {
    match width {
        0 => {}
        1 => pack_fixed::<1>(column, first, place, row_bytes, out),
        2 => pack_fixed::<2>(column, first, place, row_bytes, out),
        4 => pack_fixed::<4>(column, first, place, row_bytes, out),
        8 => pack_fixed::<8>(column, first, place, row_bytes, out),
        _ => {
            let values = column[first * width..].chunks_exact(width);
            for (row, value) in out.chunks_exact_mut(row_bytes).zip(values) {
                row[place..place + width].copy_from_slice(value);
            }
        }
    }
}

fn pack_fixed<const WIDTH: usize>(column: &[u8], first: usize, place: usize, row_bytes: usize, out: &mut [u8]) {
    let (values, _) = column[first * WIDTH..].as_chunks::<WIDTH>();
    for (row, value) in out.chunks_exact_mut(row_bytes).zip(values) {
        row[place..place + WIDTH].copy_from_slice(value);
    }
}

/// Row i of column c in `outs[c]` becomes that of row `rows[i]` of `parts[which[i]]`, whose rows lie as `pack` puts them.
///
/// `which` and `rows` are equally long, and every out holds that many values.
///
/// # Errors
/// The first place whose part or row is not there.
pub fn unpack(
    parts: &[&[u8]],
    widths: &[usize],
    which: &[i64],
    rows: &[i64],
    outs: Vec<&mut [u8]>,
    pool: Option<&ThreadPool>,
) -> Result<(), usize> {
    let row_bytes: usize = widths.iter().sum();
    if row_bytes == 0 {
        return Ok(());
    }
    let rows_per_task = rows_per_task(row_bytes);
    let places = which.chunks(rows_per_task).zip(rows.chunks(rows_per_task));
    let tasks: Vec<_> = places.zip(split(outs, widths, rows_per_task, rows.len())).collect();
    let bad = find_first(pool, tasks, |task, ((which, rows), outs)| {
        unpack_task(parts, widths, row_bytes, which, rows, outs).map(|place| task * rows_per_task + place)
    });
    bad.map_or(Ok(()), Err)
}

/// The columns' parts for each task.
fn split<'a>(outs: Vec<&'a mut [u8]>, widths: &[usize], rows_per_task: usize, rows: usize) -> Vec<Vec<&'a mut [u8]>> {
    let mut tasks: Vec<Vec<&mut [u8]>> = (0..rows.div_ceil(rows_per_task)).map(|_| Vec::new()).collect();
    for (out, &width) in outs.into_iter().zip(widths) {
        let mut left = out;
        for task in &mut tasks {
            let (part, rest) = left.split_at_mut((rows_per_task * width).min(left.len()));
            task.push(part);
            left = rest;
        }
    }
    tasks
}

fn unpack_task(
    parts: &[&[u8]],
    widths: &[usize],
    row_bytes: usize,
    which: &[i64],
    rows: &[i64],
    mut outs: Vec<&mut [u8]>,
) -> Option<usize> {
    let mut tile = vec![0; TILE * row_bytes];
    for (number, (which, rows)) in which.chunks(TILE).zip(rows.chunks(TILE)).enumerate() {
        for (at, (&part, &row)) in which.iter().zip(rows).enumerate() {
            match row_of(parts, row_bytes, part, row) {
                Some(bytes) => tile[at * row_bytes..(at + 1) * row_bytes].copy_from_slice(bytes),
                None => return Some(number * TILE + at),
            }
        }
        let mut place = 0;
        for (out, &width) in outs.iter_mut().zip(widths) {
            let end = (number * TILE + rows.len()) * width;
            unpack_column(&tile, row_bytes, place, width, &mut out[number * TILE * width..end]);
            place += width;
        }
    }
    None
}

fn row_of<'a>(parts: &[&'a [u8]], row_bytes: usize, part: i64, row: i64) -> Option<&'a [u8]> {
    let start = usize::try_from(row).ok()?.checked_mul(row_bytes)?;
    parts.get(usize::try_from(part).ok()?)?.get(start..start.checked_add(row_bytes)?)
}

fn unpack_column(tile: &[u8], row_bytes: usize, place: usize, width: usize, out: &mut [u8]) {
    match width {
        0 => {}
        1 => unpack_fixed::<1>(tile, row_bytes, place, out),
        2 => unpack_fixed::<2>(tile, row_bytes, place, out),
        4 => unpack_fixed::<4>(tile, row_bytes, place, out),
        8 => unpack_fixed::<8>(tile, row_bytes, place, out),
        _ => {
            for (value, row) in out.chunks_exact_mut(width).zip(tile.chunks_exact(row_bytes)) {
                value.copy_from_slice(&row[place..place + width]);
            }
        }
    }
}

fn unpack_fixed<const WIDTH: usize>(tile: &[u8], row_bytes: usize, place: usize, out: &mut [u8]) {
    for (value, row) in out.as_chunks_mut::<WIDTH>().0.iter_mut().zip(tile.chunks_exact(row_bytes)) {
        value.copy_from_slice(&row[place..place + WIDTH]);
    }
}

fn rows_per_task(row_bytes: usize) -> usize {
    (BYTES_PER_TASK / row_bytes).max(1).next_multiple_of(TILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_every_width_go_in_and_come_out() {
        let pool = crate::core::pool::shared(2).unwrap();
        let widths = [1_usize, 0, 2, 4, 8, 3, 100];
        for rows in [0_usize, 1, 15, 16, 17, 5_000] {
            let columns: Vec<Vec<u8>> =
                widths.iter().map(|width| (0..rows * width).map(|byte| (byte * 7 + width) as u8).collect()).collect();
            let columns: Vec<&[u8]> = columns.iter().map(Vec::as_slice).collect();
            let row_bytes: usize = widths.iter().sum();
            let mut packed = vec![0; rows * row_bytes];
            pack(&columns, &widths, &mut packed, Some(&pool));
            for row in [0, rows / 2, rows.saturating_sub(1)].into_iter().filter(|row| *row < rows) {
                let wanted: Vec<u8> = columns
                    .iter()
                    .zip(widths)
                    .flat_map(|(column, width)| column[row * width..(row + 1) * width].to_vec())
                    .collect();
                assert_eq!(packed[row * row_bytes..(row + 1) * row_bytes], wanted);
            }
            let turned: Vec<i64> = (0..rows as i64).rev().collect();
            let which = vec![0; rows];
            let mut outs: Vec<Vec<u8>> = widths.iter().map(|width| vec![0; rows * width]).collect();
            unpack(&[&packed], &widths, &which, &turned, outs.iter_mut().map(Vec::as_mut_slice).collect(), Some(&pool))
                .unwrap();
            for ((out, column), width) in outs.iter().zip(columns).zip(widths) {
                let wanted: Vec<u8> = column.chunks_exact(width.max(1)).rev().flatten().copied().collect();
                assert_eq!(*out, wanted);
            }
        }
    }

    #[test]
    fn a_row_outside_is_an_error() {
        let part: &[u8] = &[1; 12];
        let mut outs = [vec![0; 2], vec![0; 4]];
        for (which, rows, bad) in [([0, 0], [3, 4], 1), ([0, 1], [0, 0], 1), ([0, 0], [-1, 0], 0)] {
            let outs = outs.iter_mut().map(Vec::as_mut_slice).collect();
            assert_eq!(unpack(&[part], &[1, 2], &which, &rows, outs, None), Err(bad));
        }
    }
}
