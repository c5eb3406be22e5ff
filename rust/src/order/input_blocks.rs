//! The blocks of a mixture's inputs, numbered through.

use super::epochs::Epochs;

/// Where the blocks of an input lie, whose rows are one dataset as it lies.
#[derive(Clone, Debug)]
pub(super) struct InputBlocks {
    /// The id of its first row, and how many there are.
    first: u64,
    samples: u64,
    /// Rows of a block; rows from `tail` on are blocks of their own.
    block_rows: u64,
    tail: u64,
    /// The number of its first block among those of all inputs.
    pub(super) number: u64,
}

impl InputBlocks {
    /// Blocks of several rows.
    fn whole(&self) -> u64 {
        self.tail.div_ceil(self.block_rows)
    }

    pub(super) fn number_of(&self, id: u64) -> Option<u64> {
        let place = id.checked_sub(self.first).filter(|place| *place < self.samples)?;
        let within = if place < self.tail { place / self.block_rows } else { place - self.tail + self.whole() };
        Some(self.number + within)
    }

    /// The ids at which a block begins and ends.
    pub(super) fn edges(&self, number: u64) -> Option<(u64, u64)> {
        let within = number.checked_sub(self.number)?;
        let (begin, rows) = match within.checked_sub(self.whole()) {
            None => (within * self.block_rows, self.block_rows),
            Some(behind) => (self.tail + behind, 1),
        };
        (begin < self.samples).then(|| (self.first + begin, self.first + (begin + rows).min(self.samples)))
    }
}

/// The blocks of all inputs (None: a mixture); None unless each is one dataset as it lies, one behind the other.
pub(super) fn blocks_of<'a>(inputs: impl Iterator<Item = Option<&'a Epochs>>) -> Option<Vec<InputBlocks>> {
    let (mut found, mut number, mut end) = (Vec::new(), 0, 0);
    for input in inputs {
        let epochs = input?;
        let (first, samples) = epochs.one_run().filter(|(first, _)| *first >= end)?;
        let (block_rows, tail) = epochs.block_sizes();
        let blocks = InputBlocks { first, samples, block_rows, tail, number };
        number += blocks.whole() + (samples - tail);
        end = first + samples;
        found.push(blocks);
    }
    Some(found)
}

/// The input that has a row, if any.
pub(super) fn input_of(blocks: &[InputBlocks], id: u64) -> Option<usize> {
    let input = blocks.partition_point(|input| input.first <= id).checked_sub(1)?;
    (id - blocks[input].first < blocks[input].samples).then_some(input)
}
