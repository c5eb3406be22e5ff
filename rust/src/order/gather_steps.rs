//! Gathers steps of an epoch from memory while their order is computed: the rows of one lane are prefetched into the cache while
//! the ids of the next lane are computed, so that neither waits for the other. Ids are not stored: that would take as long as
//! gathering rows of eight bytes.

use crate::core::prefetch::prefetch_scattered;
use crate::order::{EpochOrder, Share, width};

/// Rows of a lane that are prefetched together, for rows of up to `SHORT_BYTES` in all columns together and for others: few enough that
/// they and the block that they are put into stay in the second cache. 128 short rows go a tenth faster than 64.
const SHORT_AHEAD: usize = 128;
const LONG_AHEAD: usize = 64;
const SHORT_BYTES: usize = 16;

/// A column in memory: row i is `source[i · row_bytes..][..row_bytes]`.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    /// The rows, one behind the other.
    pub source: &'a [u8],
    /// Bytes of a row, more than none.
    pub row_bytes: usize,
}

/// Where a lane's rows lie in an output of several steps: `rows` rows in each step of `width`; fewer than all of a lane that
/// ranks share.
#[derive(Clone, Copy, Debug)]
struct Place {
    first: usize,
    width: usize,
    rows: usize,
}

impl EpochOrder {
    /// The rows of `steps` steps from `step` on, in the order of `step_ids`: `outs[c]` is filled from `columns[c]`. Takes no other thread.
    ///
    /// # Panics
    /// If a column has fewer rows than the epoch samples, or an output has no room for the rows of `steps` steps.
    pub fn gather_steps(&self, share: Share, step: u64, steps: usize, columns: &[Column<'_>], outs: &mut [&mut [u8]]) {
        let (width, rows_per_lane) = (width(share), self.parts(share).map(|part| part.rows).max().unwrap_or(1));
        // Rows are scattered over a small block that stays in a near cache, and the block is copied in one piece.
        let row_bytes: usize = columns.iter().map(|column| column.row_bytes).sum();
        let ahead = if row_bytes <= SHORT_BYTES { SHORT_AHEAD } else { LONG_AHEAD };
        let most = (ahead / rows_per_lane).clamp(1, steps.max(1));
        let mut near: Vec<Vec<u8>> = columns.iter().map(|column| vec![0; most * width * column.row_bytes]).collect();
        for first in (0..steps).step_by(most) {
            let count = most.min(steps - first);
            self.gather_near(share, step + first as u64, count, columns, &mut near);
            for ((column, out), near) in columns.iter().zip(&mut *outs).zip(&near) {
                let step_bytes = width * column.row_bytes;
                out[first * step_bytes..][..count * step_bytes].copy_from_slice(&near[..count * step_bytes]);
            }
        }
    }

    fn gather_near(&self, share: Share, step: u64, steps: usize, columns: &[Column<'_>], outs: &mut [Vec<u8>]) {
        let (mut coming, mut asked) = (Vec::new(), Vec::new());
        let mut place = Place { first: 0, width: width(share), rows: 0 };
        for part in self.parts(share) {
            coming.resize(steps * part.rows, 0);
            self.part_ids(part, step, &mut coming);
            if place.rows == 0 {
                columns.iter().for_each(|column| column.ask(&coming));
            } else {
                columns.iter().zip(&mut *outs).for_each(|(column, out)| column.take(&asked, &coming, place, out));
            }
            place = Place { first: place.first + place.rows, rows: part.rows, ..place };
            std::mem::swap(&mut coming, &mut asked);
        }
        columns.iter().zip(outs).for_each(|(column, out)| column.take(&asked, &[], place, out));
    }
}

impl Column<'_> {
    /// Prefetches rows that are needed soon.
    fn ask(&self, rows: &[u64]) {
        let bytes = self.row_bytes;
        rows.iter().for_each(|&row| prefetch_scattered(&self.source[row as usize * bytes..][..bytes]));
    }

    /// Copies a lane's rows to their destination, and meanwhile prefetches those of the next lane.
    fn take(&self, rows: &[u64], next: &[u64], place: Place, out: &mut [u8]) {
        match self.row_bytes {
            1 => self.take_fixed::<1>(rows, next, place, out),
            2 => self.take_fixed::<2>(rows, next, place, out),
            4 => self.take_fixed::<4>(rows, next, place, out),
            8 => self.take_fixed::<8>(rows, next, place, out),
            bytes => {
                let steps = out[place.first * bytes..].chunks_mut(place.width * bytes);
                let mut next = next.chunks(place.rows);
                for (of_step, out) in rows.chunks_exact(place.rows).zip(steps) {
                    self.ask(next.next().unwrap_or_default());
                    for (&row, out) in of_step.iter().zip(out.chunks_exact_mut(bytes)) {
                        out.copy_from_slice(&self.source[row as usize * bytes..][..bytes]);
                    }
                }
                next.for_each(|rows| self.ask(rows));
            }
        }
    }

    #[inline(always)]
    fn take_fixed<const BYTES: usize>(&self, rows: &[u64], next: &[u64], place: Place, out: &mut [u8]) {
        match 1 << place.rows.trailing_zeros().min(4) {
            1 => self.take_parts::<BYTES, 1>(rows, next, place, out),
            2 => self.take_parts::<BYTES, 2>(rows, next, place, out),
            4 => self.take_parts::<BYTES, 4>(rows, next, place, out),
            8 => self.take_parts::<BYTES, 8>(rows, next, place, out),
            _ => self.take_parts::<BYTES, 16>(rows, next, place, out),
        }
    }

    /// Takes a step's rows in parts of `PART`, which divides their number.
    #[inline(always)]
    fn take_parts<const BYTES: usize, const PART: usize>(
        &self,
        rows: &[u64],
        next: &[u64],
        place: Place,
        out: &mut [u8],
    ) {
        let (source, out) = (self.source.as_chunks::<BYTES>().0, out.as_chunks_mut::<BYTES>().0);
        let (next, rest) = next.as_chunks::<PART>();
        let mut next = next.iter();
        for (of_step, out) in rows.chunks_exact(place.rows).zip(out[place.first..].chunks_mut(place.width)) {
            for (rows, out) in of_step.as_chunks::<PART>().0.iter().zip(out.as_chunks_mut::<PART>().0) {
                if let Some(next) = next.next() {
                    next.iter().for_each(|&row| prefetch_scattered(&source[row as usize]));
                }
                *out = rows.map(|row| source[row as usize]);
            }
        }
        next.flatten().chain(rest).for_each(|&row| prefetch_scattered(&source[row as usize]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_the_ids() {
        for (samples, lanes, rows_per_lane, block_rows) in
            [(5_000, 8, 4, 1), (5_000, 8, 4, 50), (3_000, 1, 700, 1), (999, 3, 1, 1)]
        {
            let rows = lanes * rows_per_lane;
            for (order, mine) in [
                (
                    EpochOrder::shuffled(samples, lanes, rows_per_lane, block_rows, 2, 7),
                    (lanes / 2 * rows_per_lane, rows),
                ),
                (EpochOrder::natural(samples, lanes, rows_per_lane, block_rows), (0, rows)),
                (EpochOrder::shuffled(samples, lanes, rows_per_lane, block_rows, 2, 7), (rows / 3, rows / 3 * 2)),
                (EpochOrder::natural(samples, lanes, rows_per_lane, block_rows), (rows - 1, rows)),
            ] {
                let steps = samples / rows;
                let count = (steps * (mine.1 - mine.0)) as usize;
                let mut expected = vec![0; count];
                order.step_ids(mine, 0, &mut expected, None);
                for row_bytes in [1, 2, 3, 4, 8, 16] {
                    let source: Vec<u8> =
                        (0..samples as usize * row_bytes).map(|byte| (byte * 31 / 7 % 251) as u8).collect();
                    let columns = [Column { source: &source, row_bytes }; 2];
                    let mut outs = vec![vec![0; count * row_bytes]; 2];
                    let mut slices: Vec<&mut [u8]> = outs.iter_mut().map(Vec::as_mut_slice).collect();
                    order.gather_steps(mine, 0, steps as usize, &columns, &mut slices);
                    for out in outs {
                        let rows = out.chunks_exact(row_bytes);
                        assert!(
                            rows.zip(&expected)
                                .all(|(row, &id)| row == &source[id as usize * row_bytes..][..row_bytes])
                        );
                    }
                }
            }
        }
    }
}
