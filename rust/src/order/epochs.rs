//! The orders of all epochs of one dataset, each made when it is needed.

use std::sync::{Arc, RwLock};

use super::{EpochOrder, fit_blocks};
use crate::core::keys::mix;

/// Epochs whose orders are kept: lanes of a mixture are in a round and the next one, and a loader begins an epoch while another ends.
const KEPT: usize = 4;

/// What the orders of a dataset's epochs have in common; see `EpochOrder`.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Rows of an epoch.
    pub samples: u64,
    /// Lanes that they are dealt to.
    pub lanes: u64,
    /// Rows of a lane in a step.
    pub rows_per_lane: u64,
    /// Rows that are worth reading together.
    pub block_rows: u64,
    /// Blocks of a lane among which rows are mixed.
    pub window_blocks: u64,
}

/// An epoch, and its order.
type Kept = (u64, Arc<EpochOrder>);

/// The epochs of a dataset.
#[derive(Debug)]
pub struct Epochs {
    sizes: Sizes,
    /// The seed, and the purpose of the keys that are made of it and an epoch; without, epochs are in the natural order.
    seed: Option<(u64, u64)>,
    runs: Vec<Run>,
    kept: RwLock<[Option<Kept>; KEPT]>,
}

/// Rows that follow one another: the place of the first, its id, and the distance from one id to the next.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The place of the first.
    pub place: u64,
    /// Its id.
    pub first: u64,
    /// The distance from one id to the next.
    pub distance: u64,
}

impl Epochs {
    /// The epochs of a dataset whose rows lie in runs: at least one, the first from place 0 on, in ascending order.
    #[must_use]
    pub fn new(sizes: Sizes, seed: Option<(u64, u64)>, runs: Vec<Run>) -> Self {
        Self { sizes, seed, runs, kept: RwLock::default() }
    }

    /// What the orders have in common.
    #[must_use]
    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// The first id, and how many there are, if ids follow one another.
    #[must_use]
    pub fn one_run(&self) -> Option<(u64, u64)> {
        match *self.runs {
            [Run { first, distance: 1, .. }] => Some((first, self.sizes.samples)),
            _ => None,
        }
    }

    /// Rows of a block, in every epoch, and the place from which on each row is a block of its own.
    #[must_use]
    pub fn block_sizes(&self) -> (u64, u64) {
        let Sizes { samples, lanes, block_rows, .. } = self.sizes;
        if self.seed.is_none() {
            return (block_rows, samples);
        }
        let (block_rows, blocks_per_lane) = fit_blocks(samples, lanes, block_rows);
        (block_rows, lanes * blocks_per_lane * block_rows)
    }

    /// The order of an epoch.
    #[must_use]
    pub fn order(&self, epoch: u64) -> Arc<EpochOrder> {
        let slot = (epoch % KEPT as u64) as usize;
        // Nobody waits here: in a forked child, a lock may be held by a thread that is not there.
        let kept = self.kept.try_read().ok().and_then(|kept| kept[slot].clone());
        if let Some((of, order)) = kept
            && of == epoch
        {
            return order;
        }
        let order = Arc::new(self.make(epoch));
        if let Ok(mut kept) = self.kept.try_write() {
            kept[slot] = Some((epoch, Arc::clone(&order)));
        }
        order
    }

    fn make(&self, epoch: u64) -> EpochOrder {
        let Sizes { samples, lanes, rows_per_lane, block_rows, window_blocks } = self.sizes;
        match self.seed {
            None => EpochOrder::natural(samples, lanes, rows_per_lane, block_rows),
            Some((seed, purpose)) => {
                let key = mix(&[seed, epoch, purpose]);
                EpochOrder::shuffled(samples, lanes, rows_per_lane, block_rows, window_blocks, key)
            }
        }
    }

    /// Writes the ids of rows from `first` on of a lane in an epoch.
    pub(super) fn ids(&self, epoch: u64, lane: u64, first: u64, out: &mut [u64]) {
        self.order(epoch).lane_ids(lane, first, out);
        match *self.runs {
            [Run { first, distance: 1, .. }] => out.iter_mut().for_each(|id| *id += first),
            _ => out.iter_mut().for_each(|id| *id = self.id(*id)),
        }
    }

    /// The id at a place.
    fn id(&self, place: u64) -> u64 {
        let run = self.runs[self.runs.partition_point(|run| run.place <= place).max(1) - 1];
        run.first + (place - run.place) * run.distance
    }
}
