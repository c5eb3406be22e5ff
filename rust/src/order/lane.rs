//! The rows of one lane of a shuffled epoch: its windows, its blocks, its share of the tail.

use super::{EpochOrder, START, Shuffle, WINDOW, deal};
use crate::core::keys::{finalise, mix};
use crate::order::permute::Permutation;

/// One lane of a shuffled epoch.
pub(super) struct Lane<'a> {
    order: &'a EpochOrder,
    shuffle: &'a Shuffle,
    lane: u64,
    rows: u64,
    in_blocks: u64,
    /// The place of the lane's first row in its sequence of windows.
    pub(super) start: u64,
}

impl<'a> Lane<'a> {
    pub(super) fn new(order: &'a EpochOrder, shuffle: &'a Shuffle, lane: u64, rows: u64) -> Self {
        let windows = order.blocks_per_lane.div_ceil(order.window_blocks).max(1);
        let slot = mix(&[shuffle.key, START, lane]) % windows * order.window_blocks;
        let phase = lane % order.window_blocks;
        let start = if slot + phase < order.blocks_per_lane { slot + phase } else { slot };
        Self {
            order,
            shuffle,
            lane,
            rows,
            in_blocks: order.blocks_per_lane * order.block_rows,
            start: start * order.block_rows,
        }
    }

    /// The blocks [first, end) of the lane that are mixed with the one at a place. The window in which the lane starts is two, cut there.
    pub(super) fn window(&self, place: u64) -> (u64, u64) {
        let slot = place / self.order.block_rows;
        let first = slot - slot % self.order.window_blocks;
        let end = (first + self.order.window_blocks).min(self.order.blocks_per_lane);
        let cut = (self.start / self.order.block_rows).clamp(first, end);
        if slot < cut { (first, cut) } else { (cut.max(first), end) }
    }

    fn block(&self, slot: u64) -> u64 {
        self.shuffle.blocks.apply(self.lane * self.order.blocks_per_lane + slot)
    }

    /// Tail ids of the lane's places [first, first + out.len()) in its share of the tail.
    fn tail_ids(&self, first: u64, out: &mut [u64]) {
        let tail = self.order.samples - self.order.tail_start();
        let from = deal(tail, self.lane, self.order.lanes).0 + first;
        self.shuffle.tail.run(from, out);
        out.iter_mut().for_each(|id| *id += self.order.tail_start());
    }

    /// Where a row of the lane lies in its sequence of windows.
    fn place(&self, row: u64) -> u64 {
        let place = row + self.start;
        if place >= self.rows { place - self.rows } else { place }
    }

    /// Writes ids from `row` on, as far as `out` and the window go; returns how many, and the rest of `out`.
    pub(super) fn fill<'b>(&self, row: u64, out: &'b mut [u64]) -> (u64, &'b mut [u64]) {
        let place = self.place(row);
        let unbroken = if row + self.start < self.rows { self.rows - self.start - row } else { self.rows - row };
        let (first, end) = if place >= self.in_blocks {
            (0, self.rows)
        } else if self.order.block_rows == 1 {
            (0, self.in_blocks)
        } else {
            let (first, end) = self.window(place);
            (first, end * self.order.block_rows)
        };
        let count = (end - place).min(unbroken).min(out.len() as u64);
        let (mine, left) = out.split_at_mut(count as usize);
        if place >= self.in_blocks {
            self.tail_ids(place - self.in_blocks, mine);
        } else if self.order.block_rows == 1 {
            self.shuffle.blocks.run(self.lane * self.order.blocks_per_lane + place, mine);
        } else {
            self.window_ids(first, place, end, mine);
        }
        (count, left)
    }

    /// Ids of places from `place` on in a window that begins with block `slot` and ends at place `end`.
    fn window_ids(&self, slot: u64, place: u64, end: u64, out: &mut [u64]) {
        let (first, block_rows) = (slot * self.order.block_rows, self.order.block_rows);
        let key = mix(&[self.shuffle.key, WINDOW, self.lane, finalise(slot)]);
        Permutation::new(end - first, key).run(place - first, out);
        let blocks: Vec<u64> =
            (0..(end - first) / block_rows).map(|number| self.block(slot + number) * block_rows).collect();
        out.iter_mut().for_each(|mixed| *mixed = blocks[(*mixed / block_rows) as usize] + *mixed % block_rows);
    }
}
