//! Steps of an epoch gathered from memory while their order is computed: the rows of one lane are on their way to the cache
//! when the ids of the next lane are worked out, so that neither waits for the other.

use crate::order::EpochOrder;
use crate::prefetch::prefetch;

/// Rows of a lane that are asked for together: few enough to stay in the nearest cache until they are taken.
const ROWS_AHEAD: usize = 64;

/// A column in memory: row i is `source[i · row_bytes..][..row_bytes]`.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    /// The rows, one behind the other.
    pub source: &'a [u8],
    /// Bytes of a row, more than none.
    pub row_bytes: usize,
}

/// Where a lane's hands lie in an output of several steps: `hand` rows in each step of `width`.
#[derive(Clone, Copy, Debug)]
struct Hands {
    first: usize,
    width: usize,
    hand: usize,
}

impl EpochOrder {
    /// `step_ids` and, in the same order, the rows of these ids: `outs[c]` is filled from `columns[c]`. Takes no other thread.
    ///
    /// # Panics
    /// If a column has fewer rows than the epoch samples, or an output does not hold as many rows as `ids`.
    pub fn gather_steps(
        &self,
        lanes: (u64, u64),
        step: u64,
        columns: &[Column<'_>],
        ids: &mut [i64],
        outs: &mut [&mut [u8]],
    ) {
        let width = self.width(lanes);
        let steps = (ROWS_AHEAD / self.width((0, 1))).max(1);
        // Hands are scattered over a small block that stays in the nearest cache, and the block is copied in one piece.
        let mut near_ids = vec![0; steps * width];
        let mut near: Vec<Vec<u8>> = columns.iter().map(|column| vec![0; near_ids.len() * column.row_bytes]).collect();
        for (number, ids) in ids.chunks_mut(steps * width).enumerate() {
            let near_ids = &mut near_ids[..ids.len()];
            self.gather_near(lanes, step + (number * steps) as u64, columns, near_ids, &mut near);
            ids.copy_from_slice(near_ids);
            for ((column, out), near) in columns.iter().zip(&mut *outs).zip(&near) {
                let first = number * steps * width * column.row_bytes;
                let bytes = ids.len() * column.row_bytes;
                out[first..first + bytes].copy_from_slice(&near[..bytes]);
            }
        }
    }

    fn gather_near(&self, lanes: (u64, u64), step: u64, columns: &[Column<'_>], ids: &mut [i64], outs: &mut [Vec<u8>]) {
        let (width, hand) = (self.width(lanes), self.width((0, 1)));
        let mut coming = vec![0; ids.len() / width * hand];
        let mut asked = coming.clone();
        let mut place = Hands { first: 0, width, hand };
        for (number, lane) in (lanes.0..lanes.1).enumerate() {
            self.lane_ids(lane, step * hand as u64, &mut coming);
            columns.iter().for_each(|column| column.ask(&coming));
            if number > 0 {
                columns.iter().zip(&mut *outs).for_each(|(column, out)| column.take(&asked, place, out));
            }
            place.first = number * hand;
            #[allow(clippy::cast_possible_wrap)]
            place.put(&coming, ids, |id| id as i64);
            std::mem::swap(&mut coming, &mut asked);
        }
        columns.iter().zip(outs).for_each(|(column, out)| column.take(&asked, place, out));
    }
}

impl Hands {
    /// Puts a value for each row of a lane where it belongs.
    #[inline(always)]
    fn put<T>(self, rows: &[u64], out: &mut [T], value: impl Fn(u64) -> T) {
        match self.hand {
            1 => self.put_fixed::<T, 1>(rows, out, value),
            2 => self.put_fixed::<T, 2>(rows, out, value),
            4 => self.put_fixed::<T, 4>(rows, out, value),
            8 => self.put_fixed::<T, 8>(rows, out, value),
            16 => self.put_fixed::<T, 16>(rows, out, value),
            hand => {
                for (hands, out) in rows.chunks_exact(hand).zip(out[self.first..].chunks_mut(self.width)) {
                    out.iter_mut().zip(hands).for_each(|(out, &row)| *out = value(row));
                }
            }
        }
    }

    #[inline(always)]
    fn put_fixed<T, const HAND: usize>(self, rows: &[u64], out: &mut [T], value: impl Fn(u64) -> T) {
        for (hands, out) in rows.as_chunks::<HAND>().0.iter().zip(out[self.first..].chunks_mut(self.width)) {
            if let Some(out) = out.first_chunk_mut::<HAND>() {
                *out = hands.map(&value);
            }
        }
    }
}

impl Column<'_> {
    /// Asks for rows that are needed soon.
    fn ask(&self, rows: &[u64]) {
        let bytes = self.row_bytes;
        rows.iter().for_each(|&row| prefetch(&self.source[row as usize * bytes..][..bytes]));
    }

    /// Copies a lane's rows to where they belong.
    fn take(&self, rows: &[u64], place: Hands, out: &mut [u8]) {
        match self.row_bytes {
            1 => self.take_fixed::<1>(rows, place, out),
            2 => self.take_fixed::<2>(rows, place, out),
            4 => self.take_fixed::<4>(rows, place, out),
            8 => self.take_fixed::<8>(rows, place, out),
            bytes => {
                let steps = out[place.first * bytes..].chunks_mut(place.width * bytes);
                for (hands, out) in rows.chunks_exact(place.hand).zip(steps) {
                    for (&row, out) in hands.iter().zip(out.chunks_exact_mut(bytes)) {
                        out.copy_from_slice(&self.source[row as usize * bytes..][..bytes]);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn take_fixed<const BYTES: usize>(&self, rows: &[u64], place: Hands, out: &mut [u8]) {
        let (source, _) = self.source.as_chunks::<BYTES>();
        place.put(rows, out.as_chunks_mut::<BYTES>().0, |row| source[row as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_the_ids() {
        for (samples, lanes, hand, block_rows) in
            [(5_000, 8, 4, 1), (5_000, 8, 4, 50), (3_000, 1, 700, 1), (999, 3, 1, 1)]
        {
            for order in [
                EpochOrder::shuffled(samples, lanes, hand, block_rows, 2, 7),
                EpochOrder::natural(samples, lanes, hand, block_rows),
            ] {
                let steps = samples / (lanes * hand);
                let mine = (lanes / 2, lanes);
                let count = (steps * (mine.1 - mine.0) * hand) as usize;
                let mut expected = vec![0; count];
                order.step_ids(mine, 0, &mut expected, None);
                for row_bytes in [1, 2, 3, 4, 8, 16] {
                    let source: Vec<u8> =
                        (0..samples as usize * row_bytes).map(|byte| (byte * 31 / 7 % 251) as u8).collect();
                    let columns = [Column { source: &source, row_bytes }; 2];
                    let (mut ids, mut outs) = (vec![0; count], vec![vec![0; count * row_bytes]; 2]);
                    let mut slices: Vec<&mut [u8]> = outs.iter_mut().map(Vec::as_mut_slice).collect();
                    order.gather_steps(mine, 0, &columns, &mut ids, &mut slices);
                    assert_eq!(ids, expected);
                    for out in outs {
                        let rows = out.chunks_exact(row_bytes);
                        assert!(
                            rows.zip(&ids).all(|(row, &id)| row == &source[id as usize * row_bytes..][..row_bytes])
                        );
                    }
                }
            }
        }
    }
}
