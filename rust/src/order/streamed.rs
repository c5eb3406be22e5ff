//! The order of a stream: rows come as they are read, and each lane mixes its own within windows of neighbouring ones.
//!
//! The stream is cut into windows, which go to the lanes in turn. A lane's first window is the longer the later its turn is, so
//! that lanes come to new windows one after another, and at the moment at which one does, its window is what follows in the
//! stream: rows are read once, ascending, at the pace at which they are used, and as many are held as half of all windows have.

use super::deal;
use crate::core::keys::mix;
use crate::order::permute::Permutation;

const WINDOW: u64 = 5;
const TURN: u64 = 6;

/// The windows of an epoch. Numbers are of blocks of rows, but where another unit is named.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    key: u64,
    lanes: u64,
    /// Blocks of a lane.
    blocks: u64,
    /// Blocks of a window, but for those at the ends.
    window: u64,
    /// The lane whose turn is first.
    first_lane: u64,
    /// What lies in no block, dealt to all lanes.
    pub(super) tail: Permutation,
}

/// Rows of a block and blocks of a window, of a lane that has so many rows in its windows.
pub(super) fn window_sizes(window_rows: u64, lanes: u64) -> (u64, u64) {
    let lane_rows = (window_rows / lanes).max(1);
    let block_rows = lane_rows.div_ceil(lanes);
    (block_rows, lane_rows / block_rows)
}

/// A window: its lane, its blocks [first, end) there, and the first of them in the stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) lane: u64,
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) begin: u64,
}

impl Window {
    /// Whether a block of the stream lies in it.
    pub(super) fn has(&self, block: u64) -> bool {
        (self.begin..self.begin + self.end - self.first).contains(&block)
    }
}

impl Stream {
    pub(super) fn new(key: u64, lanes: u64, blocks: u64, window: u64, tail_rows: u64) -> Self {
        let tail = Permutation::new(tail_rows, mix(&[key, super::TAIL]));
        Self { key, lanes, blocks, window, first_lane: mix(&[key, TURN]) % lanes, tail }
    }

    /// When it is a lane's turn; the lane whose turn it is.
    fn turn(&self, lane: u64) -> u64 {
        (lane + self.lanes - self.first_lane) % self.lanes
    }

    fn lane(&self, turn: u64) -> u64 {
        (turn + self.first_lane) % self.lanes
    }

    /// Where a window of the lane with a turn begins in it: the first one is shorter the earlier the turn.
    fn begin(&self, turn: u64, number: u64) -> u64 {
        if number == 0 {
            return 0;
        }
        let first = 1 + deal(self.window, turn, self.lanes).0;
        first.saturating_add((number - 1).saturating_mul(self.window)).min(self.blocks)
    }

    /// How many blocks of the stream lie before a lane's window.
    fn before(&self, turn: u64, number: u64) -> u64 {
        (0..self.lanes).map(|other| self.begin(other, number + u64::from(other < turn))).sum()
    }

    fn window_at(&self, turn: u64, number: u64) -> Window {
        let (first, end) = (self.begin(turn, number), self.begin(turn, number + 1));
        Window { lane: self.lane(turn), first, end, begin: self.before(turn, number) }
    }

    /// The window in which a lane's block lies.
    pub(super) fn window_of(&self, lane: u64, block: u64) -> Window {
        let turn = self.turn(lane);
        let first = self.begin(turn, 1);
        self.window_at(turn, if block < first { 0 } else { 1 + (block - first) / self.window })
    }

    /// The window in which a block of the stream lies.
    pub(super) fn window_with(&self, block: u64) -> Window {
        let (mut number, mut past) = (0, self.blocks.div_ceil(self.window) + 2);
        while past - number > 1 {
            let middle = number.midpoint(past);
            if self.before(0, middle) <= block { number = middle } else { past = middle }
        }
        let (mut turn, mut past) = (0, self.lanes);
        while past - turn > 1 {
            let middle = turn.midpoint(past);
            if self.before(middle, number) <= block { turn = middle } else { past = middle }
        }
        self.window_at(turn, number)
    }

    /// Writes the places in the stream, in rows, of a window's rows from one on.
    pub(super) fn fill(&self, window: Window, block_rows: u64, row: u64, out: &mut [u64]) {
        let key = mix(&[self.key, WINDOW, window.lane, window.first]);
        Permutation::new((window.end - window.first) * block_rows, key).run(row, out);
        out.iter_mut().for_each(|place| *place += window.begin * block_rows);
    }
}
