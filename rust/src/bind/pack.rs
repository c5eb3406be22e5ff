//! Bindings of `pack`.

use numpy::{IntoPyArray, PyArray1, PyReadwriteArray1};
use pyo3::prelude::*;

use super::{Bytes, Ids, Out, kernel_pool, misuse};
use crate::core::pack::{self, Group, Output, Plan, Sequences};

type Numbers<'py> = Bound<'py, PyArray1<i64>>;
type Planned<'py> = (Numbers<'py>, Numbers<'py>, Numbers<'py>, Numbers<'py>, Numbers<'py>);
/// A column's values as bytes, where its rows begin and end, bytes of a value, the padding, the array that is filled.
type Column<'py> = (Bytes<'py>, Ids<'py>, usize, Bytes<'py>, Out<'py>);

/// Best fit decreasing of each group of rows: rows, starts, lengths of segments, edges of sequences, sequences of groups.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn pack_best_fit<'py>(
    py: Python<'py>,
    lengths: Ids<'py>,
    group_rows: Vec<usize>,
    length: usize,
    truncate: bool,
) -> PyResult<Planned<'py>> {
    let lengths = lengths.as_slice()?;
    check(lengths, &group_rows, length)?;
    Ok(arrays(py, py.detach(|| pack::best_fit(lengths, &group_rows, length, truncate))))
}

/// Joins the rows of each group and cuts them: as `pack_best_fit`, then rows that are used up and tokens of the next.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn pack_concat<'py>(
    py: Python<'py>,
    lengths: Ids<'py>,
    groups: Vec<(usize, usize, bool)>,
    length: usize,
    truncate: bool,
) -> PyResult<(Planned<'py>, Vec<(usize, usize)>)> {
    let lengths = lengths.as_slice()?;
    let group_rows: Vec<usize> = groups.iter().map(|(rows, _, _)| *rows).collect();
    check(lengths, &group_rows, length)?;
    let groups: Vec<Group> = groups.into_iter().map(|(rows, skip, is_last)| Group { rows, skip, is_last }).collect();
    let (plan, used) = py.detach(|| pack::concat(lengths, &groups, length, truncate));
    Ok((arrays(py, plan), used))
}

/// Fills columns, and what says which token belongs to which document, as the segments say.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
#[pyo3(signature = (rows, starts, lengths, edges, length, columns, threads, segment_ids=None, position_ids=None, mask=None))]
fn fill_sequences<'py>(
    py: Python<'py>,
    rows: Ids<'py>,
    starts: Ids<'py>,
    lengths: Ids<'py>,
    edges: Ids<'py>,
    length: usize,
    mut columns: Vec<Column<'py>>,
    threads: usize,
    mut segment_ids: Option<PyReadwriteArray1<'py, i32>>,
    mut position_ids: Option<PyReadwriteArray1<'py, i32>>,
    mut mask: Option<Out<'py>>,
) -> PyResult<()> {
    let (rows, starts, lengths) = (rows.as_slice()?, starts.as_slice()?, lengths.as_slice()?);
    let sequences = Sequences { rows, starts, lengths, edges: edges.as_slice()?, length };
    let mut outputs = Vec::with_capacity(columns.len() + 3);
    for (values, edges, width, padding, out) in &mut columns {
        let (values, edges, padding) = (values.as_slice()?, edges.as_slice()?, padding.as_slice()?);
        outputs.push(Output::Values { values, edges, width: *width, padding, out: out.as_slice_mut()? });
    }
    if let Some(out) = &mut segment_ids {
        outputs.push(Output::SegmentIds(out.as_slice_mut()?));
    }
    if let Some(out) = &mut position_ids {
        outputs.push(Output::PositionIds(out.as_slice_mut()?));
    }
    if let Some(out) = &mut mask {
        outputs.push(Output::Mask(out.as_slice_mut()?));
    }
    let pool = kernel_pool(threads)?;
    py.detach(|| pack::fill(sequences, outputs, Some(&pool))).map_err(misuse)
}

/// Whether there are rows of these lengths for each group, and room for a token.
fn check(lengths: &[i64], group_rows: &[usize], length: usize) -> PyResult<()> {
    let rows = group_rows.iter().try_fold(0_usize, |sum, &rows| sum.checked_add(rows));
    if rows != Some(lengths.len()) {
        return Err(misuse(format!("the groups have other rows than the {} that there are", lengths.len())));
    }
    if length == 0 || lengths.iter().any(|&length| length < 0) {
        return Err(misuse("a sequence has at least one token, and no row less than none"));
    }
    Ok(())
}

fn arrays(py: Python<'_>, plan: Plan) -> Planned<'_> {
    let Plan { rows, starts, lengths, edges, sequences } = plan;
    (
        rows.into_pyarray(py),
        starts.into_pyarray(py),
        lengths.into_pyarray(py),
        edges.into_pyarray(py),
        sequences.into_pyarray(py),
    )
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(pack_best_fit, module)?)?;
    module.add_function(wrap_pyfunction!(pack_concat, module)?)?;
    module.add_function(wrap_pyfunction!(fill_sequences, module)?)
}
