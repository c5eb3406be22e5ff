//! Bindings of `order` and `keys`.

use numpy::{PyArray1, PyReadwriteArray1, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::{Bytes, Ids, Out, detach_for, kernel_pool, misuse, slices};
use crate::core::keys;
use crate::order::gather_steps::Column;
use crate::order::{self, permute};

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

    #[staticmethod]
    fn streamed(samples: u64, lanes: u64, rows_per_lane: u64, window_rows: u64, key: u64) -> PyResult<Self> {
        check(samples, lanes, rows_per_lane, window_rows)?;
        Ok(Self(order::EpochOrder::streamed(samples, lanes, rows_per_lane, window_rows, key)))
    }

    #[getter]
    fn window_blocks(&self) -> u64 {
        self.0.window_blocks()
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
        whole_steps(self.0.batch_rows(), share, out.len())?;
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
        let steps = whole_steps(self.0.batch_rows(), share, rows)?;
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

/// How many steps of a share so many rows are.
pub(super) fn whole_steps(batch_rows: u64, share: order::Share, rows: usize) -> PyResult<usize> {
    if share.1 <= share.0 || share.1 > batch_rows || !rows.is_multiple_of(order::width(share)) {
        return Err(misuse(format!("{rows} rows are no whole steps of the places {share:?} of a batch")));
    }
    Ok(rows / order::width(share))
}

/// Ids as NumPy's int64; they are below 2⁶², as `check` sees to.
#[allow(clippy::cast_possible_wrap)]
pub(super) fn ids(py: Python<'_>, out: Vec<u64>) -> NewIds<'_> {
    PyArray1::from_vec(py, out.into_iter().map(|id| id as i64).collect())
}

pub(super) fn check(samples: u64, lanes: u64, rows_per_lane: u64, block_rows: u64) -> PyResult<()> {
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
    module.add_function(wrap_pyfunction!(mix, module)?)
}
