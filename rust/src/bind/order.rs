//! Bindings of `order` and `keys`.

use numpy::{PyArray1, PyReadwriteArray1, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::{Bytes, Ids, Out, detach_for, kernel_pool, misuse, slices};
use crate::steps::Column;
use crate::{keys, order, permute};

type NewIds<'py> = Bound<'py, PyArray1<i64>>;

/// The order of one epoch.
#[pyclass(frozen, module = "penstock._core")]
struct EpochOrder(order::EpochOrder);

#[pymethods]
impl EpochOrder {
    #[staticmethod]
    fn natural(samples: u64, lanes: u64, rows_per_lane: u64, block_rows: u64) -> PyResult<Self> {
        check(samples, lanes, rows_per_lane, block_rows)?;
        Ok(Self(order::EpochOrder::natural(samples, lanes, rows_per_lane, block_rows)))
    }

    #[staticmethod]
    fn shuffled(
        samples: u64,
        lanes: u64,
        rows_per_lane: u64,
        block_rows: u64,
        window_blocks: u64,
        key: u64,
    ) -> PyResult<Self> {
        check(samples, lanes, rows_per_lane, block_rows)?;
        Ok(Self(order::EpochOrder::shuffled(samples, lanes, rows_per_lane, block_rows, window_blocks, key)))
    }

    #[getter]
    fn block_rows(&self) -> u64 {
        self.0.block_rows()
    }

    #[getter]
    fn tail_start(&self) -> u64 {
        self.0.tail_start()
    }

    fn lane_rows(&self, lane: u64) -> u64 {
        self.0.lane_rows(lane)
    }

    fn lane_ids<'py>(&self, py: Python<'py>, lane: u64, first: u64, count: usize) -> NewIds<'py> {
        let mut out = vec![0; count];
        py.detach(|| self.0.lane_ids(lane, first, &mut out));
        ids(py, out)
    }

    fn step_ids(
        &self,
        py: Python<'_>,
        share: order::Share,
        step: u64,
        mut out: PyReadwriteArray1<'_, i64>,
        threads: usize,
    ) -> PyResult<()> {
        let (pool, out) = (kernel_pool(threads)?, out.as_slice_mut()?);
        self.whole_steps(share, out.len())?;
        detach_for(py, out.len(), || self.0.step_ids(share, step, out, Some(&pool)));
        Ok(())
    }

    /// Lanes, and the rows in them among which samples are mixed: first and end. See `order::EpochOrder::windows`.
    fn windows<'py>(&self, py: Python<'py>, samples: Ids<'py>) -> PyResult<(NewIds<'py>, NewIds<'py>, NewIds<'py>)> {
        let samples = samples.as_slice()?;
        let (mut lanes, mut first, mut end) = (vec![0; samples.len()], vec![0; samples.len()], vec![0; samples.len()]);
        detach_for(py, samples.len(), || self.0.windows(samples, &mut lanes, &mut first, &mut end));
        Ok((PyArray1::from_vec(py, lanes), PyArray1::from_vec(py, first), PyArray1::from_vec(py, end)))
    }

    /// The rows of whole steps, `rows` in all: `outs[c]` from `sources[c]`, whose rows have `widths[c]` bytes.
    #[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
    fn gather_steps(
        &self,
        py: Python<'_>,
        share: order::Share,
        step: u64,
        rows: usize,
        sources: Vec<Bytes<'_>>,
        widths: Vec<usize>,
        mut outs: Vec<Out<'_>>,
    ) -> PyResult<()> {
        let sources = slices(&sources)?;
        if sources.len() != widths.len() || sources.len() != outs.len() {
            return Err(misuse("sources, widths and outs must be equally long"));
        }
        let steps = self.whole_steps(share, rows)?;
        let samples = usize::try_from(self.0.samples()).unwrap_or(usize::MAX);
        for ((source, &width), out) in sources.iter().zip(&widths).zip(&outs) {
            if width == 0 || samples.checked_mul(width).is_none_or(|bytes| bytes > source.len()) {
                return Err(misuse(format!("{samples} rows of {width} bytes do not lie in {} bytes", source.len())));
            }
            if rows.checked_mul(width) != Some(out.len()) {
                return Err(misuse(format!("{rows} rows of {width} bytes do not fill {} bytes", out.len())));
            }
        }
        let columns: Vec<Column<'_>> =
            sources.iter().zip(widths).map(|(&source, row_bytes)| Column { source, row_bytes }).collect();
        let mut outs = outs.iter_mut().map(|out| out.as_slice_mut()).collect::<Result<Vec<_>, _>>()?;
        py.detach(|| self.0.gather_steps(share, step, steps, &columns, &mut outs));
        Ok(())
    }
}

impl EpochOrder {
    /// How many steps of a share so many rows are.
    fn whole_steps(&self, share: order::Share, rows: usize) -> PyResult<usize> {
        if share.1 <= share.0 || share.1 > self.0.batch_rows() || !rows.is_multiple_of(order::width(share)) {
            return Err(misuse(format!("{rows} rows are no whole steps of the places {share:?} of a batch")));
        }
        Ok(rows / order::width(share))
    }
}

/// Which source gives each row of a lane; see `order::mixture`.
#[pyclass(frozen, module = "penstock._core")]
struct Mixture(order::mixture::Mixture);

#[pymethods]
impl Mixture {
    #[new]
    fn new(quotas: Vec<u64>, lanes: u64, rows_per_lane: u64) -> PyResult<Self> {
        if lanes == 0 || rows_per_lane == 0 {
            return Err(misuse("lanes and rows_per_lane must be positive"));
        }
        order::mixture::Mixture::new(quotas, lanes, rows_per_lane).map(Self).map_err(misuse)
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

/// Ids as NumPy's int64; they are below 2⁶², as `check` sees to.
#[allow(clippy::cast_possible_wrap)]
fn ids(py: Python<'_>, out: Vec<u64>) -> NewIds<'_> {
    PyArray1::from_vec(py, out.into_iter().map(|id| id as i64).collect())
}

fn check(samples: u64, lanes: u64, rows_per_lane: u64, block_rows: u64) -> PyResult<()> {
    if samples == 0 || lanes == 0 || rows_per_lane == 0 || block_rows == 0 || samples > permute::LARGEST {
        return Err(misuse("samples, lanes, rows_per_lane and block_rows must be positive, samples at most 2⁶²"));
    }
    Ok(())
}

/// A key made of words; see `keys::mix`.
#[pyfunction]
fn mix(words: Vec<u64>) -> u64 {
    keys::mix(&words)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<EpochOrder>()?;
    module.add_class::<Mixture>()?;
    module.add_function(wrap_pyfunction!(mix, module)?)
}
