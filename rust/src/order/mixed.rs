//! Several orders mixed: in every lane, each row comes from the input whose turn it is. `penstock/order/rows/mixed.py` says what the epochs are.

use std::sync::{Arc, Mutex};

use rayon::ThreadPool;

use super::epochs::Epochs;
use super::input_blocks::{InputBlocks, blocks_of};
use super::mixture::Mixture;
use super::{Share, parts, width};
use crate::core::pool::find_first;

/// Rows of an input in a lane that one task of the pool computes, and the most rows of a lane, for many inputs: fewer would derive the
/// windows' keys too often, more would not stay in the second cache.
const ROWS_PER_INPUT: usize = 128;
const MOST_ROWS: usize = 16_384;

/// Rows of an input's lane that are made together where fewer are asked for, and kept for those that ask next: to make one takes
/// nearly as long. They are kept for so many lanes of inputs at most: 32 MiB.
const ROWS_AHEAD: usize = 64;
const MOST_AHEAD: usize = 1 << 16;

/// What is asked of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Their ids.
    Ids,
    /// The epochs in which they are drawn.
    Draws,
}

/// What gives a mixture its rows.
#[derive(Clone, Debug)]
pub enum Input {
    /// A dataset.
    Epochs(Arc<Epochs>),
    /// Another mixture.
    Mixed(Arc<Mixed>),
}

impl Input {
    /// Lanes, and rows of a lane in a step.
    #[must_use]
    pub fn shape(&self) -> (u64, u64) {
        match self {
            Self::Epochs(epochs) => (epochs.sizes().lanes, epochs.sizes().rows_per_lane),
            Self::Mixed(mixed) => (mixed.mixture.lanes(), mixed.mixture.rows_per_lane()),
        }
    }

    /// The dataset, unless it is a mixture.
    pub(super) fn epochs(&self) -> Option<&Epochs> {
        if let Self::Epochs(epochs) = self { Some(epochs) } else { None }
    }

    /// Rows of a lane in an epoch.
    #[must_use]
    pub fn lane_rows(&self, lane: u64) -> u64 {
        match self {
            Self::Epochs(epochs) => epochs.order(0).lane_rows(lane),
            Self::Mixed(mixed) => mixed.lane_rows,
        }
    }

    fn fill(&self, asked: Asked, epoch: u64, lane: u64, first: u64, out: &mut [u64]) {
        match (self, asked) {
            (Self::Mixed(mixed), _) => mixed.lane(asked, epoch, lane, first, out),
            (Self::Epochs(epochs), Asked::Ids) => epochs.ids(epoch, lane, first, out),
            (Self::Epochs(_), Asked::Draws) => out.fill(epoch),
        }
    }
}

/// A mixed order. All lanes are equally long.
#[derive(Debug)]
pub struct Mixed {
    pub(super) mixture: Arc<Mixture>,
    pub(super) inputs: Vec<Input>,
    /// Rows of every input's lanes, input after input.
    pub(super) rows: Vec<u64>,
    pub(super) lane_rows: u64,
    pub(super) rounds: Rounds,
    pub(super) blocks: Option<Vec<InputBlocks>>,
    /// What is kept of every input, lane after lane.
    ahead: Vec<Mutex<Vec<Ahead>>>,
}

/// Ids of rows that follow one another in a lane of an input, from a place of a round on.
#[derive(Clone, Debug, Default)]
struct Ahead {
    round: u64,
    place: u64,
    ids: Vec<u64>,
}

impl Ahead {
    /// The ids of so many rows, if they are here.
    fn get(&self, round: u64, place: u64, count: usize) -> Option<&[u64]> {
        let first = usize::try_from(place.checked_sub(self.place)?).ok()?;
        self.ids.get(first..first.checked_add(count)?).filter(|_| self.round == round)
    }
}

/// Where the inputs are when an epoch begins.
#[derive(Clone, Debug)]
pub enum Rounds {
    /// Each so many of its epochs further than when the one before began, and the sequence begins anew.
    Anew(Vec<u64>),
    /// Where they were when the one before ended, and so is the sequence.
    GoOn,
}

impl Mixed {
    /// A mixture of orders with so many rows in every lane.
    ///
    /// # Errors
    /// If inputs have other lanes than the mixture, or lanes without rows, or are not as many as it has sources.
    pub fn new(mixture: Arc<Mixture>, inputs: Vec<Input>, lane_rows: u64, rounds: Rounds) -> Result<Self, String> {
        let (lanes, shape) = (mixture.lanes(), (mixture.lanes(), mixture.rows_per_lane()));
        let anew = if let Rounds::Anew(rounds) = &rounds { rounds.len() } else { inputs.len() };
        let fits = inputs.len() == mixture.sources() && anew == inputs.len() && lane_rows > 0;
        if !fits || inputs.iter().any(|input| input.shape() != shape) {
            return Err(format!("{} inputs for {} sources on {lanes} lanes", inputs.len(), mixture.sources()));
        }
        let rows: Vec<u64> = inputs.iter().flat_map(|input| (0..lanes).map(|lane| input.lane_rows(lane))).collect();
        if rows.contains(&0) {
            return Err("an input has lanes without rows".to_owned());
        }
        let kept = if rows.len() <= MOST_AHEAD { lanes } else { 0 };
        let ahead = (0..kept).map(|_| Mutex::default()).collect();
        let blocks = blocks_of(inputs.iter().map(Input::epochs));
        Ok(Self { mixture, inputs, rows, lane_rows, rounds, blocks, ahead })
    }

    /// Rows of a full global batch.
    #[must_use]
    pub fn batch_rows(&self) -> u64 {
        self.mixture.lanes() * self.mixture.rows_per_lane()
    }

    /// Lanes.
    #[must_use]
    pub fn lanes(&self) -> u64 {
        self.mixture.lanes()
    }

    /// Writes what is asked of rows from `first` on of a lane; rows past its end begin again.
    pub fn lane(&self, asked: Asked, epoch: u64, lane: u64, first: u64, out: &mut [u64]) {
        let (mut turns, mut row, mut done) = (vec![0; out.len()], first % self.lane_rows, 0);
        while done < out.len() {
            let count = usize::try_from(self.lane_rows - row).unwrap_or(usize::MAX).min(out.len() - done);
            let rows = done..done + count;
            self.unbroken(asked, epoch, lane, row, &mut turns[rows.clone()], &mut out[rows]);
            (row, done) = (0, done + count);
        }
    }

    /// The same for rows of one epoch: those of each input are neighbours in its lane, and are then put where its turns are.
    fn unbroken(&self, asked: Asked, epoch: u64, lane: u64, row: u64, turns: &mut [u16], out: &mut [u64]) {
        let row = if matches!(self.rounds, Rounds::GoOn) { epoch * self.lane_rows + row } else { row };
        self.mixture.fill(lane, row, turns);
        let mut next = vec![0_usize; self.inputs.len()];
        turns.iter().for_each(|&input| next[usize::from(input)] += 1);
        let (mut made, mut begin) = (vec![0; out.len()], 0);
        // Nobody waits here: in a forked child, a lock may be held by a thread that is not there.
        let ahead = if asked == Asked::Ids { self.ahead.get(lane as usize) } else { None };
        let mut ahead = ahead.and_then(|ahead| ahead.try_lock().ok());
        if let Some(ahead) = &mut ahead {
            ahead.resize_with(self.inputs.len(), Ahead::default);
        }
        for (input, next) in next.iter_mut().enumerate().filter(|(_, count)| **count > 0) {
            let ordinal = self.mixture.count(input, lane, row);
            let ahead = ahead.as_mut().map(|ahead| &mut ahead[input]);
            self.rounds_of(asked, epoch, input, (lane, ordinal), ahead, &mut made[begin..begin + *next]);
            (*next, begin) = (begin, begin + *next);
        }
        for (out, &input) in out.iter_mut().zip(&*turns) {
            let place = &mut next[usize::from(input)];
            *out = made[*place];
            *place += 1;
        }
    }

    /// What is asked of an input's rows from one on in a lane, counted from the begin of the sequence.
    fn rounds_of(
        &self,
        asked: Asked,
        epoch: u64,
        input: usize,
        (lane, ordinal): (u64, u64),
        mut ahead: Option<&mut Ahead>,
        out: &mut [u64],
    ) {
        let rows = self.rows[input * self.mixture.lanes() as usize + lane as usize];
        let base = if let Rounds::Anew(rounds) = &self.rounds { epoch * rounds[input] } else { 0 };
        let (mut round, mut place, mut rest) = (base + ordinal / rows, ordinal % rows, out);
        while !rest.is_empty() {
            let count = usize::try_from(rows - place).unwrap_or(usize::MAX).min(rest.len());
            let (part, left) = rest.split_at_mut(count);
            match &mut ahead {
                Some(ahead) if count < ROWS_AHEAD => {
                    part.copy_from_slice(self.made_ahead(ahead, input, (round, lane, place), rows, count));
                }
                _ => self.inputs[input].fill(asked, round, lane, place, part),
            }
            (round, place, rest) = (round + 1, 0, left);
        }
    }

    /// Steps whose rows of a lane are made together.
    fn steps_together(&self) -> usize {
        let rows = (ROWS_PER_INPUT * self.inputs.len()).min(MOST_ROWS);
        (rows / self.mixture.rows_per_lane() as usize).max(1)
    }

    /// The ids of `count` rows of a lane with so many; more are made if these are not there.
    fn made_ahead<'a>(
        &self,
        ahead: &'a mut Ahead,
        input: usize,
        (round, lane, place): (u64, u64, u64),
        rows: u64,
        count: usize,
    ) -> &'a [u64] {
        if ahead.get(round, place, count).is_none() {
            ahead.ids.resize((rows - place).min(ROWS_AHEAD as u64) as usize, 0);
            self.inputs[input].fill(Asked::Ids, round, lane, place, &mut ahead.ids);
            (ahead.round, ahead.place) = (round, place);
        }
        &ahead.ids[(place - ahead.place) as usize..][..count]
    }

    /// Writes what is asked of whole steps from `step` on, of the places `[share.0, share.1)` of each global batch. `out` holds steps ×
    /// places numbers; they are below 2⁶².
    #[allow(clippy::cast_possible_wrap)]
    pub fn steps(&self, asked: Asked, epoch: u64, share: Share, step: u64, out: &mut [i64], pool: Option<&ThreadPool>) {
        let (width, rows_per_lane) = (width(share), self.mixture.rows_per_lane() as usize);
        let steps_per_task = self.steps_together();
        let tasks = out.chunks_mut(width * steps_per_task).collect();
        find_first(pool, tasks, |task, out: &mut [i64]| {
            let (first, steps) = (step + (task * steps_per_task) as u64, out.len() / width);
            let (mut rows, mut place) = (vec![0; steps * rows_per_lane], 0);
            for part in parts(rows_per_lane as u64, share) {
                self.lane(asked, epoch, part.lane, first * rows_per_lane as u64, &mut rows);
                for (step, of_step) in rows.chunks_exact(rows_per_lane).enumerate() {
                    let out = &mut out[step * width + place..][..part.rows];
                    let mine = &of_step[part.from as usize..][..part.rows];
                    out.iter_mut().zip(mine).for_each(|(out, id)| *out = *id as i64);
                }
                place += part.rows;
            }
            None::<()>
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::epochs::{Run, Sizes};
    use super::super::word::Word;
    use super::*;

    /// Datasets of so many samples one behind the other, mixed on 4 lanes of 2 rows a step.
    fn mixed(samples: &[u64], lane_rows: u64, rounds: Rounds) -> Mixed {
        let mut first = 0;
        let inputs = samples.iter().map(|&samples| {
            first += samples;
            let sizes = Sizes { samples, lanes: 4, rows_per_lane: 2, block_rows: 3, window_blocks: 2 };
            let runs = vec![
                Run { place: 0, first: first - samples, distance: 1 },
                Run { place: samples / 2, first: first - samples + samples / 2, distance: 1 },
            ];
            Input::Epochs(Arc::new(Epochs::new(sizes, Some((first, 1)), runs)))
        });
        let word = Word::new((1..=samples.len() as u64).collect()).unwrap();
        let mixture = Mixture::new(vec![(0, Arc::new(word))], 4, 2).unwrap();
        Mixed::new(Arc::new(mixture), inputs.collect(), lane_rows, rounds).unwrap()
    }

    proptest! {
        #[test]
        fn any_part_is_a_part_of_the_whole(
            samples in prop::collection::vec(4_u64..60, 1..5), lane_rows in 1_u64..40, epoch in 0_u64..4,
            first in 0_u64..50, goes_on in any::<bool>(),
        ) {
            let rounds = if goes_on { Rounds::GoOn } else { Rounds::Anew(vec![2; samples.len()]) };
            let mixed = mixed(&samples, lane_rows, rounds);
            for asked in [Asked::Ids, Asked::Draws] {
                for lane in 0..4 {
                    let (mut whole, mut part) = (vec![0; 200], vec![0; 100]);
                    mixed.lane(asked, epoch, lane, 0, &mut whole);
                    mixed.lane(asked, epoch, lane, first, &mut part);
                    prop_assert_eq!(&part, &whole[first as usize..first as usize + 100]);
                    let mut steps = vec![0; 3 * 40];
                    mixed.steps(asked, epoch, (lane * 2 + 1, 8), 5, &mut steps[..3 * (7 - lane as usize * 2)], None);
                    let found = [0, 1, 2].map(|step| steps[step * (7 - lane as usize * 2)] as u64);
                    prop_assert_eq!(found, [11, 13, 15].map(|row| whole[row]));
                }
            }
        }

        #[test]
        fn every_sample_comes_once_a_round(samples in prop::collection::vec(4_u64..60, 1..5)) {
            let total: u64 = (1..=samples.len() as u64).sum();
            let mixed = mixed(&samples, total * 60, Rounds::GoOn);
            let mut seen = std::collections::HashSet::new();
            for lane in 0..4 {
                let (mut ids, mut draws) = (vec![0; total as usize * 60], vec![0; total as usize * 60]);
                mixed.lane(Asked::Ids, 0, lane, 0, &mut ids);
                mixed.lane(Asked::Draws, 0, lane, 0, &mut draws);
                prop_assert!(ids.iter().all(|&id| id < samples.iter().sum()));
                prop_assert!(ids.into_iter().zip(draws).all(|row| seen.insert(row)));
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let word = Arc::new(Word::new(vec![1, 1]).unwrap());
        let mixture = |lanes| Arc::new(Mixture::new(vec![(0, word.clone())], lanes, 2).unwrap());
        let inputs = mixed(&[9, 9], 5, Rounds::GoOn).inputs;
        assert!(Mixed::new(mixture(4), inputs.clone(), 5, Rounds::GoOn).is_ok());
        assert!(Mixed::new(mixture(8), inputs.clone(), 5, Rounds::GoOn).is_err());
        assert!(Mixed::new(mixture(4), inputs.clone(), 0, Rounds::GoOn).is_err());
        assert!(Mixed::new(mixture(4), inputs.clone(), 5, Rounds::Anew(vec![1])).is_err());
        assert!(Mixed::new(mixture(4), inputs[..1].to_vec(), 5, Rounds::GoOn).is_err());
        let few = mixed(&[9, 9], 5, Rounds::GoOn);
        assert!(few.inputs.iter().all(|input| input.lane_rows(3) > 0));
    }
}
