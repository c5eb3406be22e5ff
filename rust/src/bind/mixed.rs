//! Bindings of the mixtures in `order`.

use std::sync::Arc;

use numpy::{PyArray1, PyReadwriteArray1};
use pyo3::prelude::*;

use super::order::{check, ids, whole_steps};
use super::{Ids, detach_for, kernel_pool, misuse};
use crate::order::epochs::{Run, Sizes};
use crate::order::mixed::{Asked, Input, Rounds};
use crate::order::{self, permute};

type NewIds<'py> = Bound<'py, PyArray1<i64>>;

/// The sequence of sources that belongs to quotas; see `order::word`.
#[pyclass(frozen, module = "penstock._core")]
struct MixtureWord(Arc<order::word::Word>);

#[pymethods]
impl MixtureWord {
    #[new]
    fn new(py: Python<'_>, quotas: Vec<u64>) -> PyResult<Self> {
        let word = py.detach(|| order::word::Word::new(quotas)).map_err(misuse)?;
        Ok(Self(Arc::new(word)))
    }
}

/// Which source gives each row of a lane; see `order::mixture`.
#[pyclass(frozen, module = "penstock._core")]
struct Mixture(Arc<order::mixture::Mixture>);

#[pymethods]
impl Mixture {
    #[new]
    fn new(pieces: Vec<(u64, PyRef<'_, MixtureWord>)>, lanes: u64, rows_per_lane: u64) -> PyResult<Self> {
        let pieces = pieces.iter().map(|(first, word)| (*first, Arc::clone(&word.0))).collect();
        order::mixture::Mixture::new(pieces, lanes, rows_per_lane)
            .map(|mixture| Self(Arc::new(mixture)))
            .map_err(misuse)
    }

    /// Of rows [first, first + count) of a lane: the source, and how many of its rows come before in the lane.
    fn rows<'py>(&self, py: Python<'py>, lane: u64, first: u64, count: usize) -> (NewIds<'py>, NewIds<'py>) {
        let (mut sources, mut ordinals) = (vec![0; count], vec![0; count]);
        detach_for(py, count, || self.0.rows(lane, first, &mut sources, &mut ordinals));
        (PyArray1::from_vec(py, sources), PyArray1::from_vec(py, ordinals))
    }

    /// The rows of lanes that a source gives as its `ordinals`-th.
    fn places<'py>(
        &self,
        py: Python<'py>,
        source: usize,
        lanes: Ids<'py>,
        ordinals: Ids<'py>,
    ) -> PyResult<NewIds<'py>> {
        self.each(py, source, &lanes, &ordinals, |lane, ordinal| self.0.row(source, lane, ordinal))
    }

    /// How many rows a source has among the first `rows` of lanes.
    fn counts<'py>(&self, py: Python<'py>, source: usize, lanes: Ids<'py>, rows: Ids<'py>) -> PyResult<NewIds<'py>> {
        self.each(py, source, &lanes, &rows, |lane, rows| self.0.count(source, lane, rows))
    }
}

impl Mixture {
    #[allow(clippy::cast_sign_loss, clippy::cast_possible_wrap)]
    fn each<'py>(
        &self,
        py: Python<'py>,
        source: usize,
        lanes: &Ids<'py>,
        numbers: &Ids<'py>,
        of: impl Fn(u64, u64) -> u64 + Send + Sync,
    ) -> PyResult<NewIds<'py>> {
        let (lanes, numbers) = (lanes.as_slice()?, numbers.as_slice()?);
        let fits = source < self.0.sources() && lanes.len() == numbers.len();
        if !fits || lanes.iter().chain(numbers).any(|&number| number < 0) {
            return Err(misuse("a source that there is, and as many lanes as numbers, none below 0"));
        }
        let found = detach_for(py, lanes.len(), || {
            lanes.iter().zip(numbers).map(|(&lane, &number)| of(lane as u64, number as u64) as i64).collect()
        });
        Ok(PyArray1::from_vec(py, found))
    }
}

/// The orders of all epochs of a dataset; see `order::epochs`.
#[pyclass(frozen, module = "penstock._core")]
struct Epochs(Arc<order::epochs::Epochs>);

#[pymethods]
impl Epochs {
    /// seed: with the purpose of its keys. runs: the first id, the number of rows and the distance of ids.
    #[new]
    #[pyo3(signature = (lanes, rows_per_lane, block_rows, window_blocks, seed, runs))]
    fn new(
        lanes: u64,
        rows_per_lane: u64,
        block_rows: u64,
        window_blocks: u64,
        seed: Option<(u64, u64)>,
        runs: Vec<(u64, u64, u64)>,
    ) -> PyResult<Self> {
        let (mut samples, mut placed) = (0_u64, Vec::with_capacity(runs.len()));
        for (first, count, distance) in runs {
            placed.push(Run { place: samples, first, distance });
            let last = count.checked_mul(distance).and_then(|length| length.checked_add(first));
            if last.is_none_or(|last| last > permute::LARGEST) {
                return Err(misuse("ids are at most 2⁶²"));
            }
            samples = samples.saturating_add(count);
        }
        check(samples, lanes, rows_per_lane, block_rows)?;
        let sizes = Sizes { samples, lanes, rows_per_lane, block_rows, window_blocks };
        Ok(Self(Arc::new(order::epochs::Epochs::new(sizes, seed, placed))))
    }
}

/// Several orders mixed; see `order::mixed`.
#[pyclass(frozen, module = "penstock._core")]
struct MixedOrder(Arc<order::mixed::Mixed>);

#[derive(FromPyObject)]
enum MixedInput<'py> {
    Epochs(PyRef<'py, Epochs>),
    Mixed(PyRef<'py, MixedOrder>),
}

#[pymethods]
impl MixedOrder {
    /// rounds: by how many of its epochs each input is further when the next epoch begins; None where all go on where they were.
    #[new]
    #[pyo3(signature = (mixture, inputs, lane_rows, rounds))]
    #[allow(clippy::needless_pass_by_value)]
    fn new(
        mixture: PyRef<'_, Mixture>,
        inputs: Vec<MixedInput<'_>>,
        lane_rows: u64,
        rounds: Option<Vec<u64>>,
    ) -> PyResult<Self> {
        let inputs = inputs.iter().map(|input| match input {
            MixedInput::Epochs(epochs) => Input::Epochs(Arc::clone(&epochs.0)),
            MixedInput::Mixed(mixed) => Input::Mixed(Arc::clone(&mixed.0)),
        });
        let rounds = rounds.map_or(Rounds::GoOn, Rounds::Anew);
        let mixed = order::mixed::Mixed::new(Arc::clone(&mixture.0), inputs.collect(), lane_rows, rounds);
        mixed.map(|mixed| Self(Arc::new(mixed))).map_err(misuse)
    }

    /// Of rows [first, first + count) of a lane: their ids, or the epochs in which they are drawn.
    fn lane<'py>(
        &self,
        py: Python<'py>,
        draws: bool,
        epoch: u64,
        lane: u64,
        first: u64,
        count: usize,
    ) -> PyResult<NewIds<'py>> {
        if lane >= self.0.lanes() {
            return Err(misuse(format!("lane {lane} of {}", self.0.lanes())));
        }
        let mut out = vec![0; count];
        detach_for(py, count, || self.0.lane(asked(draws), epoch, lane, first, &mut out));
        Ok(ids(py, out))
    }

    /// The same of several lanes, one after the other: rows [first[i], first[i] + count[i]) of lane[i].
    #[allow(clippy::needless_pass_by_value)]
    fn segments<'py>(
        &self,
        py: Python<'py>,
        draws: bool,
        epoch: u64,
        lane: Ids<'py>,
        first: Ids<'py>,
        count: Ids<'py>,
    ) -> PyResult<NewIds<'py>> {
        let (lane, first, count) = (lane.as_slice()?, first.as_slice()?, count.as_slice()?);
        if [first.len(), count.len()] != [lane.len(); 2] {
            return Err(misuse("lane, first and count must be equally long"));
        }
        let wrong = || misuse("lanes, rows and counts are at least 0, and there are fewer rows than memory");
        let mut parts = Vec::with_capacity(lane.len());
        let mut rows = 0_usize;
        for ((&lane, &first), &count) in lane.iter().zip(first).zip(count) {
            let (lane, first) = (u64::try_from(lane).map_err(|_| wrong())?, u64::try_from(first).map_err(|_| wrong())?);
            let count = usize::try_from(count).map_err(|_| wrong())?;
            if lane >= self.0.lanes() {
                return Err(misuse(format!("lane {lane} of {}", self.0.lanes())));
            }
            rows = rows.checked_add(count).filter(|rows| *rows <= 1 << 40).ok_or_else(wrong)?;
            parts.push((lane, first, count));
        }
        let mut out = vec![0; rows];
        detach_for(py, rows, || {
            let mut rest = out.as_mut_slice();
            for (lane, first, count) in parts {
                let (mine, more) = rest.split_at_mut(count);
                self.0.lane(asked(draws), epoch, lane, first, mine);
                rest = more;
            }
        });
        Ok(ids(py, out))
    }

    /// The same of whole steps.
    #[allow(clippy::too_many_arguments)]
    fn steps(
        &self,
        py: Python<'_>,
        draws: bool,
        epoch: u64,
        share: order::Share,
        step: u64,
        mut out: PyReadwriteArray1<'_, i64>,
        threads: usize,
    ) -> PyResult<()> {
        let (pool, out) = (kernel_pool(threads)?, out.as_slice_mut()?);
        whole_steps(self.0.batch_rows(), share, out.len())?;
        detach_for(py, out.len(), || self.0.steps(asked(draws), epoch, share, step, out, Some(&pool)));
        Ok(())
    }

    /// Whether `block_numbers`, `block_edges` and `until` can be called: each input is one dataset as it lies.
    #[getter]
    fn has_blocks(&self) -> bool {
        self.0.has_blocks()
    }

    /// The blocks in which rows lie, numbered through in the order of their ids.
    fn block_numbers<'py>(&self, py: Python<'py>, ids: Ids<'py>) -> PyResult<NewIds<'py>> {
        let ids = ids.as_slice()?;
        let found = detach_for(py, ids.len(), || self.0.block_numbers(ids));
        Ok(PyArray1::from_vec(py, found.ok_or_else(|| misuse("ids of rows that there are"))?))
    }

    /// The ids at which blocks begin and end.
    fn block_edges<'py>(&self, py: Python<'py>, numbers: Ids<'py>) -> PyResult<(NewIds<'py>, NewIds<'py>)> {
        let numbers = numbers.as_slice()?;
        let found = detach_for(py, numbers.len(), || self.0.block_edges(numbers));
        let (first, end) = found.ok_or_else(|| misuse("numbers of blocks that there are"))?;
        Ok((PyArray1::from_vec(py, first), PyArray1::from_vec(py, end)))
    }

    /// When the blocks are done in which rows of lanes lie, by their last ids: the lane, -1 for all, and its first row that needs them no more.
    fn until<'py>(
        &self,
        py: Python<'py>,
        epoch: u64,
        lanes: Ids<'py>,
        rows: Ids<'py>,
        last: Ids<'py>,
    ) -> PyResult<(NewIds<'py>, NewIds<'py>)> {
        let (lanes, rows, last) = (lanes.as_slice()?, rows.as_slice()?, last.as_slice()?);
        if lanes.len() != rows.len() || lanes.len() != last.len() {
            return Err(misuse("lanes, rows and last must be equally long"));
        }
        let found = detach_for(py, last.len(), || self.0.until(epoch, lanes, rows, last));
        let (lane, end) = found.ok_or_else(|| misuse("lanes, and ids of rows, that there are"))?;
        Ok((PyArray1::from_vec(py, lane), PyArray1::from_vec(py, end)))
    }
}

fn asked(draws: bool) -> Asked {
    if draws { Asked::Draws } else { Asked::Ids }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Epochs>()?;
    module.add_class::<MixedOrder>()?;
    module.add_class::<Mixture>()?;
    module.add_class::<MixtureWord>()
}
