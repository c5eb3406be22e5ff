//! The blocks in which rows of a mixture lie, and when these are done; `penstock/order/protocol.py` says what that means.

use super::epochs::Epochs;
use super::input_blocks::input_of;
use super::mixed::{Input, Mixed, Rounds};

impl Mixed {
    /// Whether `block_numbers`, `block_edges` and `until` can be called.
    #[must_use]
    pub fn has_blocks(&self) -> bool {
        self.blocks.is_some()
    }

    /// The blocks in which rows lie, numbered through in the order of their ids; None for an id that there is not.
    #[must_use]
    #[allow(clippy::cast_possible_wrap)]
    pub fn block_numbers(&self, ids: &[i64]) -> Option<Vec<i64>> {
        let blocks = self.blocks.as_ref()?;
        let number = |id: &i64| {
            let id = u64::try_from(*id).ok()?;
            Some(blocks[input_of(blocks, id)?].number_of(id)? as i64)
        };
        ids.iter().map(number).collect()
    }

    /// The ids at which blocks begin and end; None for a block that there is not.
    #[must_use]
    #[allow(clippy::cast_possible_wrap)]
    pub fn block_edges(&self, numbers: &[i64]) -> Option<(Vec<i64>, Vec<i64>)> {
        let blocks = self.blocks.as_ref()?;
        let edges = |number: &i64| {
            let number = u64::try_from(*number).ok()?;
            let input = blocks.partition_point(|input| input.number <= number).checked_sub(1)?;
            let (begin, end) = blocks[input].edges(number)?;
            Some((begin as i64, end as i64))
        };
        numbers.iter().map(edges).collect()
    }

    /// When the blocks are done in which rows of lanes lie, by the blocks' last ids: the lane, -1 for all, and its first row that needs
    /// them no more. None for an id or a lane that there is not.
    #[must_use]
    pub fn until(&self, epoch: u64, lanes: &[i64], rows: &[i64], last: &[i64]) -> Option<(Vec<i64>, Vec<i64>)> {
        let all = lanes.iter().zip(rows).zip(last);
        all.map(|((lane, row), last)| {
            let (lane, row) = (u64::try_from(*lane).ok()?, u64::try_from(*row).ok()?);
            self.until_one(epoch, lane, row, u64::try_from(*last).ok()?)
        })
        .collect()
    }

    #[allow(clippy::cast_possible_wrap, clippy::cast_sign_loss)]
    fn until_one(&self, epoch: u64, lane: u64, row: u64, last: u64) -> Option<(i64, i64)> {
        let input = input_of(self.blocks.as_ref()?, last)?;
        let Input::Epochs(epochs) = &self.inputs[input] else { return None };
        let (begin, base) = match &self.rounds {
            Rounds::GoOn => (epoch * self.lane_rows, 0),
            Rounds::Anew(rounds) => (0, epoch * rounds[input]),
        };
        let round = self.mixture.count(input, lane, row + begin) / self.rows_of(input, lane)?;
        let (found, stop) = window(epochs, base + round, last)?;
        let end = |lane: u64| Some(self.mixture.row(input, lane, stop - 1 + round * self.rows_of(input, lane)?) + 1);
        let end = if found < 0 { (0..self.lanes()).filter_map(end).max() } else { end(found as u64) }?;
        Some((found, (end as i64 - begin as i64).min(self.lane_rows as i64)))
    }

    /// Rows of an input in a lane; None if there is no such lane.
    fn rows_of(&self, input: usize, lane: u64) -> Option<u64> {
        let lane = usize::try_from(lane).ok().filter(|_| lane < self.lanes())?;
        self.rows.get(input * usize::try_from(self.lanes()).ok()? + lane).copied()
    }
}

/// The lane, -1 for all, in which a row is needed in an epoch, and the end of the rows in it among which its block is mixed.
#[allow(clippy::cast_possible_wrap, clippy::cast_sign_loss)]
fn window(epochs: &Epochs, epoch: u64, id: u64) -> Option<(i64, u64)> {
    let (first, _) = epochs.one_run()?;
    let (mut lane, mut begin, mut end) = ([0], [0], [0]);
    epochs.order(epoch).windows(&[(id - first) as i64], &mut lane, &mut begin, &mut end);
    Some((lane[0], (end[0] as u64).max(1)))
}
