//! Which sample comes when: the arithmetic of one epoch's order, in O(1) memory for any number of samples.
//!
//! The epoch is dealt to `lanes`. Step k takes rows [k·r, (k + 1)·r) of every lane, r = `rows_per_lane`, lane after lane, so a global
//! batch has lanes × r rows. A rank takes equally many neighbouring places of it: whole lanes, where the number of ranks divides
//! that of the lanes; otherwise it shares lanes with its neighbours.
//!
//! *Natural order*: step k is samples [k·B, (k + 1)·B); lane l gets the l-th r rows of it, like cards.
//!
//! *Shuffled*: sample ids are cut into lanes × `blocks_per_lane` blocks of `block_rows`; the blocks are permuted and lane l
//! owns the l-th equal share of the sequence. Inside a lane, rows are permuted within windows of `window_blocks` blocks.
//! The ids that are left over (fewer than there are blocks: the tail) are permuted, dealt to the lanes and form a window of
//! their own. Each lane starts its epoch at another window, so that the tail, and what `drop_last` drops, moves about; and neighbouring
//! lanes at another block of it, so that they do not all need new blocks at the same step.

pub mod epochs;
mod lane;
pub mod mixed;
mod mixed_blocks;
pub mod mixture;
#[cfg(test)]
mod tests;
pub mod word;

use rayon::ThreadPool;

use self::lane::Lane;
use crate::keys::mix;
use crate::permute::Permutation;
use crate::pool::find_first;

/// Rows of a lane that one task of the pool computes; fewer would derive the windows' keys too often.
const ROWS_PER_TASK: usize = 256;

const BLOCKS: u64 = 1;
const TAIL: u64 = 2;
const WINDOW: u64 = 3;
const START: u64 = 4;

/// How an epoch's samples are ordered; all ranks hold the same.
#[derive(Clone, Debug)]
pub struct EpochOrder {
    samples: u64,
    lanes: u64,
    rows_per_lane: u64,
    block_rows: u64,
    blocks_per_lane: u64,
    window_blocks: u64,
    shuffle: Option<Shuffle>,
}

#[derive(Clone, Debug)]
struct Shuffle {
    key: u64,
    blocks: Permutation,
    tail: Permutation,
}

/// The places `[first, last)` of every global batch that a rank takes.
pub type Share = (u64, u64);

/// What a share takes of a lane in every step: `rows` of its rows, from number `from` on: all of them, but for lanes that
/// ranks share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) lane: u64,
    pub(crate) from: u64,
    pub(crate) rows: usize,
}

/// Rows of a share in every step.
pub(crate) fn width(share: Share) -> usize {
    usize::try_from(share.1 - share.0).unwrap_or(usize::MAX)
}

/// The lanes in which a share of the global batch lies, and which of their rows in a step.
fn parts(rows_per_lane: u64, (first, last): Share) -> impl Iterator<Item = Part> {
    (first / rows_per_lane..last.div_ceil(rows_per_lane)).map(move |lane| {
        let (begin, end) = (first.max(lane * rows_per_lane), last.min((lane + 1) * rows_per_lane));
        Part { lane, from: begin - lane * rows_per_lane, rows: usize::try_from(end - begin).unwrap_or(usize::MAX) }
    })
}

/// The share of `total` things that falls to `lane` of `lanes`, as equal as whole numbers allow: first and count.
fn deal(total: u64, lane: u64, lanes: u64) -> (u64, u64) {
    let edge = |l: u64| u64::try_from(u128::from(l) * u128::from(total) / u128::from(lanes)).unwrap_or(u64::MAX);
    (edge(lane), edge(lane + 1) - edge(lane))
}

/// Block length near `wanted` (a quarter longer at most, where there are blocks enough to choose) that leaves the shortest
/// tail, and the blocks of each lane. The tail is always shorter than one row a block.
fn fit_blocks(samples: u64, lanes: u64, wanted: u64) -> (u64, u64) {
    let lane_rows = samples / lanes;
    if lane_rows == 0 {
        return (1, 0);
    }
    let most = (lane_rows / wanted.max(1)).max(1);
    let least = (lane_rows * 4 / (wanted.max(1) * 5)).clamp(1, most).max(most.saturating_sub(256));
    (least..=most)
        .map(|blocks| (lane_rows / blocks, blocks))
        .min_by_key(|&(rows, blocks)| (samples - lanes * blocks * rows, std::cmp::Reverse(blocks)))
        .unwrap_or((1, 0))
}

impl EpochOrder {
    /// The natural order.
    #[must_use]
    pub fn natural(samples: u64, lanes: u64, rows_per_lane: u64, block_rows: u64) -> Self {
        Self { samples, lanes, rows_per_lane, block_rows, blocks_per_lane: 0, window_blocks: 1, shuffle: None }
    }

    /// The shuffled order of the epoch that `key` belongs to; `block_rows` is a wish, see `block_rows()`.
    #[must_use]
    pub fn shuffled(
        samples: u64,
        lanes: u64,
        rows_per_lane: u64,
        block_rows: u64,
        window_blocks: u64,
        key: u64,
    ) -> Self {
        let (block_rows, blocks_per_lane) = fit_blocks(samples, lanes, block_rows);
        let blocks = lanes * blocks_per_lane;
        let shuffle = Shuffle {
            key,
            blocks: Permutation::new(blocks, mix(&[key, BLOCKS])),
            tail: Permutation::new(samples - blocks * block_rows, mix(&[key, TAIL])),
        };
        let window_blocks = if block_rows == 1 { 1 } else { window_blocks.clamp(1, blocks_per_lane.max(1)) };
        Self { samples, lanes, rows_per_lane, block_rows, blocks_per_lane, window_blocks, shuffle: Some(shuffle) }
    }

    /// Samples of the epoch.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Samples in a block; neighbouring ids `[j·block_rows, (j + 1)·block_rows)` are read together.
    #[must_use]
    pub fn block_rows(&self) -> u64 {
        self.block_rows
    }

    /// Ids below this lie in blocks; those from here on are the tail, read one by one.
    #[must_use]
    pub fn tail_start(&self) -> u64 {
        if self.shuffle.is_some() { self.lanes * self.blocks_per_lane * self.block_rows } else { self.samples }
    }

    /// Rows that lane `lane` has in this epoch; lanes differ by one at most.
    #[must_use]
    pub fn lane_rows(&self, lane: u64) -> u64 {
        if self.shuffle.is_some() {
            self.blocks_per_lane * self.block_rows + deal(self.samples - self.tail_start(), lane, self.lanes).1
        } else {
            let batch = self.lanes * self.rows_per_lane;
            self.samples / batch * self.rows_per_lane + deal(self.samples % batch, lane, self.lanes).1
        }
    }

    /// Writes the sample ids of rows `[first, first + out.len())` of a lane; rows past its end start again at its row 0.
    pub fn lane_ids(&self, lane: u64, first: u64, out: &mut [u64]) {
        let rows = self.lane_rows(lane);
        if rows == 0 {
            // An epoch shorter than the number of lanes: an empty lane borrows from the whole, only ever as padding.
            for (place, id) in out.iter_mut().enumerate() {
                *id = (lane + first + place as u64) % self.samples;
            }
            return;
        }
        match &self.shuffle {
            None => {
                out.iter_mut().enumerate().for_each(|(i, id)| *id = self.natural_id(lane, (first + i as u64) % rows))
            }
            Some(shuffle) => {
                let lane = Lane::new(self, shuffle, lane, rows);
                let (mut row, mut rest) = (first % rows, out);
                while !rest.is_empty() {
                    let (filled, left) = lane.fill(row, rest);
                    row = if row + filled == rows { 0 } else { row + filled };
                    rest = left;
                }
            }
        }
    }

    /// Writes the ids of whole steps from `step` on, of the places `[share.0, share.1)` of each global batch. `out` holds steps ×
    /// places ids; they are below 2⁶².
    #[allow(clippy::cast_possible_wrap)]
    pub fn step_ids(&self, share: Share, step: u64, out: &mut [i64], pool: Option<&ThreadPool>) {
        let width = width(share);
        let steps_per_task = (ROWS_PER_TASK / usize::try_from(self.rows_per_lane).unwrap_or(ROWS_PER_TASK)).max(1);
        let tasks = out.chunks_mut(width * steps_per_task).collect();
        find_first(pool, tasks, |task, out: &mut [i64]| {
            let (first, steps) = (step + (task * steps_per_task) as u64, out.len() / width);
            let (mut rows, mut place) = (Vec::new(), 0);
            for part in self.parts(share) {
                rows.resize(steps * part.rows, 0);
                self.part_ids(part, first, &mut rows);
                for (step, ids) in rows.chunks_exact(part.rows).enumerate() {
                    let out = &mut out[step * width + place..][..part.rows];
                    out.iter_mut().zip(ids).for_each(|(out, id)| *out = *id as i64);
                }
                place += part.rows;
            }
            None::<()>
        });
    }

    /// The lanes in which a share of the global batch lies, and which of their rows in a step.
    pub(crate) fn parts(&self, share: Share) -> impl Iterator<Item = Part> + use<> {
        parts(self.rows_per_lane, share)
    }

    /// Writes the ids of a part in steps from `step` on, as many as `out` has room for.
    pub(crate) fn part_ids(&self, part: Part, step: u64, out: &mut [u64]) {
        let first = step * self.rows_per_lane + part.from;
        if part.rows as u64 == self.rows_per_lane {
            return self.lane_ids(part.lane, first, out);
        }
        for (step, rows) in (0_u64..).zip(out.chunks_exact_mut(part.rows)) {
            self.lane_ids(part.lane, first + step * self.rows_per_lane, rows);
        }
    }

    /// When samples are needed: the lane of each, and the first and the end of the rows in it among which its block is mixed (the
    /// sample itself where a block is one sample). In the natural order, steps take rows of all lanes: lane -1.
    #[allow(clippy::cast_possible_wrap, clippy::cast_sign_loss)]
    pub fn windows(&self, samples: &[i64], lanes: &mut [i64], first: &mut [i64], end: &mut [i64]) {
        let outs = lanes.iter_mut().zip(first).zip(end);
        for (sample, ((lane, first), end)) in samples.iter().zip(outs) {
            let sample = (*sample as u64).min(self.samples - 1);
            (*lane, *first, *end) = match &self.shuffle {
                None => {
                    let row = sample / (self.lanes * self.rows_per_lane) * self.rows_per_lane;
                    (-1, row as i64, (row + self.rows_per_lane) as i64)
                }
                Some(shuffle) => {
                    let (lane, first, end) = self.window_rows(shuffle, sample);
                    (lane as i64, first as i64, end as i64)
                }
            };
        }
    }

    /// The lane of a sample, and the rows in it of the sample's window; of the sample itself where blocks are single samples.
    fn window_rows(&self, shuffle: &Shuffle, sample: u64) -> (u64, u64, u64) {
        let tail = self.samples - self.tail_start();
        let in_blocks = sample < self.tail_start();
        let (lane, place) = if in_blocks {
            let slot = shuffle.blocks.invert(sample / self.block_rows);
            let (lane, slot) = (slot / self.blocks_per_lane, slot % self.blocks_per_lane);
            (lane, slot * self.block_rows)
        } else {
            let index = shuffle.tail.invert(sample - self.tail_start());
            let owner = (u128::from(index + 1) * u128::from(self.lanes)).div_ceil(u128::from(tail)) - 1;
            let lane = u64::try_from(owner).unwrap_or(u64::MAX);
            (lane, self.blocks_per_lane * self.block_rows + index - deal(tail, lane, self.lanes).0)
        };
        let rows = self.lane_rows(lane);
        let order = Lane::new(self, shuffle, lane, rows);
        let (place, count) = if in_blocks {
            let (first, end) = order.window(place);
            (first * self.block_rows, (end - first) * self.block_rows)
        } else {
            (place, 1)
        };
        let start = order.start;
        let first = if place >= start { place - start } else { place + rows - start };
        (lane, first, first + count)
    }

    /// Rows of a full global batch.
    #[must_use]
    pub fn batch_rows(&self) -> u64 {
        self.lanes * self.rows_per_lane
    }

    /// Lanes of the epoch.
    #[must_use]
    pub fn lanes(&self) -> u64 {
        self.lanes
    }

    fn natural_id(&self, lane: u64, row: u64) -> u64 {
        let batch = self.lanes * self.rows_per_lane;
        let (step, place) = (row / self.rows_per_lane, row % self.rows_per_lane);
        let full = self.samples / batch;
        let within = if step < full {
            lane * self.rows_per_lane + place
        } else {
            deal(self.samples % batch, lane, self.lanes).0 + place
        };
        step * batch + within
    }
}
