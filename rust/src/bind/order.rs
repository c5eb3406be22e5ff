//! Bindings of `order` and `keys`.

use numpy::PyArray1;
use pyo3::prelude::*;

use super::{kernel_pool, misuse};
use crate::{keys, order};

type NewIds<'py> = Bound<'py, PyArray1<i64>>;

/// The order of one epoch.
#[pyclass(frozen, module = "penstock._core")]
struct EpochOrder(order::EpochOrder);

#[pymethods]
impl EpochOrder {
    #[staticmethod]
    fn natural(samples: u64, lanes: u64, hand: u64, block_rows: u64) -> PyResult<Self> {
        check(samples, lanes, hand, block_rows)?;
        Ok(Self(order::EpochOrder::natural(samples, lanes, hand, block_rows)))
    }

    #[staticmethod]
    fn shuffled(samples: u64, lanes: u64, hand: u64, block_rows: u64, window_blocks: u64, key: u64) -> PyResult<Self> {
        check(samples, lanes, hand, block_rows)?;
        Ok(Self(order::EpochOrder::shuffled(samples, lanes, hand, block_rows, window_blocks, key)))
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

    #[allow(clippy::too_many_arguments)]
    fn step_ids<'py>(
        &self,
        py: Python<'py>,
        lanes: (u64, u64),
        step: u64,
        rows: usize,
        threads: usize,
    ) -> PyResult<NewIds<'py>> {
        let pool = kernel_pool(threads)?;
        let mut out = vec![0; rows];
        py.detach(|| pool.install(|| self.0.step_ids(lanes, step, &mut out)));
        Ok(ids(py, out))
    }

    fn blocks<'py>(&self, py: Python<'py>, lanes: (u64, u64), first: u64, last: u64) -> NewIds<'py> {
        let found = py.detach(|| {
            let mut all: Vec<u64> = (lanes.0..lanes.1).flat_map(|lane| self.0.lane_blocks(lane, first, last)).collect();
            all.sort_unstable();
            all.dedup();
            all
        });
        ids(py, found)
    }
}

/// Ids as NumPy's int64; they are below 2⁶³, as `check` sees to.
#[allow(clippy::cast_possible_wrap)]
fn ids(py: Python<'_>, out: Vec<u64>) -> NewIds<'_> {
    PyArray1::from_vec(py, out.into_iter().map(|id| id as i64).collect())
}

fn check(samples: u64, lanes: u64, hand: u64, block_rows: u64) -> PyResult<()> {
    if samples == 0 || lanes == 0 || hand == 0 || block_rows == 0 || samples > i64::MAX as u64 {
        return Err(misuse("samples, lanes, hand and block_rows must be positive"));
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
