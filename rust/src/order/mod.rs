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
//!
//! *Streamed*: rows are read ascending, once, and mixed within windows of neighbouring ones (see `streamed`).

pub mod epochs;
pub mod gather_steps;
mod input_blocks;
mod lane;
pub mod mixed;
mod mixed_blocks;
pub mod mixture;
pub mod permute;
mod streamed;
#[cfg(test)]
mod tests;
pub mod word;

use rayon::ThreadPool;

use self::lane::Lane;
use self::streamed::{Stream, Window, window_sizes};
use crate::core::keys::mix;
use crate::core::pool::find_first;
use crate::order::permute::Permutation;

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
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Natural,
    Shuffled(Shuffle),
    Streamed(Stream),
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
        Self { samples, lanes, rows_per_lane, block_rows, blocks_per_lane: 0, window_blocks: 1, kind: Kind::Natural }
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
        Self {
            samples,
            lanes,
            rows_per_lane,
            block_rows,
            blocks_per_lane,
            window_blocks,
            kind: Kind::Shuffled(shuffle),
        }
    }

    /// The order of a stream, in the epoch that `key` belongs to: windows of all lanes have `window_rows` together.
    #[must_use]
    pub fn streamed(samples: u64, lanes: u64, rows_per_lane: u64, window_rows: u64, key: u64) -> Self {
        let (block_rows, window_blocks) = window_sizes(window_rows, lanes);
        let blocks_per_lane = samples / lanes / block_rows;
        let tail_rows = samples - lanes * blocks_per_lane * block_rows;
        let kind = Kind::Streamed(Stream::new(key, lanes, blocks_per_lane, window_blocks, tail_rows));
        Self { samples, lanes, rows_per_lane, block_rows, blocks_per_lane, window_blocks, kind }
    }

    /// Samples of the epoch.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Blocks of a lane among which rows are mixed.
    #[must_use]
    pub fn window_blocks(&self) -> u64 {
        self.window_blocks
    }

    /// Samples in a block; neighbouring ids `[j·block_rows, (j + 1)·block_rows)` are read together.
    #[must_use]
    pub fn block_rows(&self) -> u64 {
        self.block_rows
    }

    /// Ids below this lie in blocks; those from here on are the tail, read one by one.
    #[must_use]
    pub fn tail_start(&self) -> u64 {
        if self.is_natural() { self.samples } else { self.lanes * self.blocks_per_lane * self.block_rows }
    }

    /// Rows that lane `lane` has in this epoch; lanes differ by one at most.
    #[must_use]
    pub fn lane_rows(&self, lane: u64) -> u64 {
        if self.is_natural() {
            let batch = self.lanes * self.rows_per_lane;
            self.samples / batch * self.rows_per_lane + deal(self.samples % batch, lane, self.lanes).1
        } else {
            self.blocks_per_lane * self.block_rows + deal(self.samples - self.tail_start(), lane, self.lanes).1
        }
    }

    fn is_natural(&self) -> bool {
        matches!(self.kind, Kind::Natural)
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
        match &self.kind {
            Kind::Natural => {
                out.iter_mut().enumerate().for_each(|(i, id)| *id = self.natural_id(lane, (first + i as u64) % rows))
            }
            Kind::Streamed(stream) => {
                let (mut row, mut rest) = (first % rows, out);
                while !rest.is_empty() {
                    let (mine, left) = self.stream_ids(stream, lane, row, rows, rest);
                    row = if row + mine == rows { 0 } else { row + mine };
                    rest = left;
                }
            }
            Kind::Shuffled(shuffle) => {
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

    /// Writes ids of a lane of a stream from `row` on, as far as `out` and the window go; returns how many, and the rest of `out`.
    #[allow(clippy::cast_possible_truncation)]
    fn stream_ids<'a>(
        &self,
        stream: &Stream,
        lane: u64,
        row: u64,
        rows: u64,
        out: &'a mut [u64],
    ) -> (u64, &'a mut [u64]) {
        let in_blocks = self.blocks_per_lane * self.block_rows;
        if row >= in_blocks {
            let count = (rows - row).min(out.len() as u64);
            let (mine, left) = out.split_at_mut(count as usize);
            stream.tail.run(deal(self.samples - self.tail_start(), lane, self.lanes).0 + row - in_blocks, mine);
            mine.iter_mut().for_each(|id| *id += self.tail_start());
            return (count, left);
        }
        let window = stream.window_of(lane, row / self.block_rows);
        let count = (window.end * self.block_rows - row).min(out.len() as u64);
        let (mine, left) = out.split_at_mut(count as usize);
        stream.fill(window, self.block_rows, row - window.first * self.block_rows, mine);
        (count, left)
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
        let mut found = None;
        for (sample, ((lane, first), end)) in samples.iter().zip(outs) {
            let sample = (*sample as u64).min(self.samples - 1);
            let of_lane = match &self.kind {
                Kind::Natural => {
                    let row = sample / (self.lanes * self.rows_per_lane) * self.rows_per_lane;
                    (*lane, *first, *end) = (-1, row as i64, (row + self.rows_per_lane) as i64);
                    continue;
                }
                Kind::Streamed(_) if sample >= self.tail_start() => {
                    let (lane, row) = self.tail_row(sample);
                    (lane, row, row + 1)
                }
                Kind::Streamed(stream) => {
                    let block = sample / self.block_rows;
                    let known = found.filter(|window: &Window| window.has(block));
                    let window = known.unwrap_or_else(|| stream.window_with(block));
                    found = Some(window);
                    (window.lane, window.first * self.block_rows, window.end * self.block_rows)
                }
                Kind::Shuffled(shuffle) => self.window_rows(shuffle, sample),
            };
            (*lane, *first, *end) = (of_lane.0 as i64, of_lane.1 as i64, of_lane.2 as i64);
        }
    }

    /// The lane of a sample that lies in no block, and its row there, if the lane began with its first one.
    fn tail_row(&self, sample: u64) -> (u64, u64) {
        let tail = self.samples - self.tail_start();
        let index = match &self.kind {
            Kind::Natural => 0,
            Kind::Shuffled(Shuffle { tail, .. }) | Kind::Streamed(Stream { tail, .. }) => {
                tail.invert(sample - self.tail_start())
            }
        };
        let owner = (u128::from(index + 1) * u128::from(self.lanes)).div_ceil(u128::from(tail)) - 1;
        let lane = u64::try_from(owner).unwrap_or(u64::MAX);
        (lane, self.blocks_per_lane * self.block_rows + index - deal(tail, lane, self.lanes).0)
    }

    /// The lane of a sample, and the rows in it of the sample's window; of the sample itself where blocks are single samples.
    fn window_rows(&self, shuffle: &Shuffle, sample: u64) -> (u64, u64, u64) {
        let in_blocks = sample < self.tail_start();
        let (lane, place) = if in_blocks {
            let slot = shuffle.blocks.invert(sample / self.block_rows);
            let (lane, slot) = (slot / self.blocks_per_lane, slot % self.blocks_per_lane);
            (lane, slot * self.block_rows)
        } else {
            self.tail_row(sample)
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
