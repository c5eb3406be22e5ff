//! Gathers steps of several datasets in memory, mixed, while their order is computed; as `steps` does for one.

use crate::order::mixed::{LaneSteps, Mixed};
use crate::order::{Share, width};
use crate::prefetch::prefetch_scattered;

/// Rows that are prefetched before they are copied.
const AHEAD: usize = 64;

/// A column in memory that every dataset has: row i of dataset d is `sources[d][i · row_bytes..][..row_bytes]`.
#[derive(Clone, Debug)]
pub struct MixedColumn<'a> {
    /// The rows of each dataset, one behind the other.
    pub sources: Vec<&'a [u8]>,
    /// Bytes of a row, more than none.
    pub row_bytes: usize,
}

impl Mixed {
    /// The rows of whole steps from `step` on, in the order of `steps`, as many as `outs` have room for: `outs[c]` is filled from
    /// `columns[c]`. first_ids: of every dataset. Takes no other thread.
    ///
    /// # Panics
    /// If a column has fewer rows than its dataset's epoch, or an output room for no whole steps.
    pub fn gather_steps(
        &self,
        (epoch, share): (u64, Share),
        step: u64,
        steps: usize,
        first_ids: &[u64],
        columns: &[MixedColumn<'_>],
        outs: &mut [&mut [u8]],
    ) {
        for first in (0..steps).step_by(self.steps_together()) {
            let count = self.steps_together().min(steps - first);
            self.each_lane((epoch, share), step + first as u64, count, |lane| {
                for (column, out) in columns.iter().zip(&mut *outs) {
                    let step_bytes = width(share) * column.row_bytes;
                    let out = &mut out[first * step_bytes..][..count * step_bytes];
                    column.take(lane, first_ids, step_bytes, out);
                }
            });
        }
    }
}

impl MixedColumn<'_> {
    fn take(&self, lane: LaneSteps<'_>, first_ids: &[u64], step_bytes: usize, out: &mut [u8]) {
        match self.row_bytes {
            1 => self.take_fixed::<1>(lane, first_ids, step_bytes, out),
            2 => self.take_fixed::<2>(lane, first_ids, step_bytes, out),
            4 => self.take_fixed::<4>(lane, first_ids, step_bytes, out),
            8 => self.take_fixed::<8>(lane, first_ids, step_bytes, out),
            bytes => self.take_steps(lane, first_ids, step_bytes, out, |source, row, out| {
                out.copy_from_slice(&source[row * bytes..][..bytes]);
            }),
        }
    }

    fn take_fixed<const BYTES: usize>(
        &self,
        lane: LaneSteps<'_>,
        first_ids: &[u64],
        step_bytes: usize,
        out: &mut [u8],
    ) {
        self.take_steps(lane, first_ids, step_bytes, out, |source, row, out| {
            let value: [u8; BYTES] = source.as_chunks::<BYTES>().0[row];
            out.copy_from_slice(&value);
        });
    }

    /// Copies a lane's rows to their places, the later ones being prefetched meanwhile.
    #[inline(always)]
    fn take_steps(
        &self,
        lane: LaneSteps<'_>,
        first_ids: &[u64],
        step_bytes: usize,
        out: &mut [u8],
        copy: impl Fn(&[u8], usize, &mut [u8]),
    ) {
        let bytes = self.row_bytes;
        let LaneSteps { turns, ids, rows_per_lane, part, place } = lane;
        let row_of = |at: usize| {
            let turn = usize::from(turns[at]);
            (self.sources[turn], (ids[at] - first_ids[turn]) as usize)
        };
        let ask = |at: usize| {
            if at < ids.len() {
                let (source, row) = row_of(at);
                prefetch_scattered(&source[row * bytes..][..bytes]);
            }
        };
        (0..AHEAD.min(ids.len())).for_each(ask);
        for (step, out) in out.chunks_exact_mut(step_bytes).enumerate() {
            let first = step * rows_per_lane + part.from as usize;
            for (row, out) in out[place * bytes..][..part.rows * bytes].chunks_exact_mut(bytes).enumerate() {
                ask(first + row + AHEAD);
                let (source, number) = row_of(first + row);
                copy(source, number, out);
            }
        }
    }
}
