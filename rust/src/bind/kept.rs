//! Bindings of `kept`.

use numpy::{PyArray1, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::{Bytes, Ids, misuse};
use crate::kept::{self, Part};

/// The pieces of ranges, the packs in which they lie, and where there.
type Places<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

/// Where bytes [offset[i], offset[i] + length[i]) of file shard[i] lie, whose own places begin at base[shard[i]]; None unless each
/// of these ranges is held whole by one piece that was checked. parts: ends and numbers of pieces, in their order.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn find_whole<'py>(
    py: Python<'py>,
    rows: Bytes<'py>,
    parts: Vec<(Ids<'py>, Ids<'py>)>,
    base: Ids<'py>,
    shard: Ids<'py>,
    offset: Ids<'py>,
    length: Ids<'py>,
) -> PyResult<Option<Places<'py>>> {
    let count = shard.len();
    if [offset.len(), length.len()] != [count; 2] || rows.len() % kept::ROW_BYTES != 0 {
        return Err(misuse("shard, offset and length must be equally long, and rows whole"));
    }
    // A few bisections are sooner done than the interpreter is let go of and had again.
    let (rows, base) = (rows.as_slice()?, base.as_slice()?);
    let parts = parts.iter().map(|(end, number)| Ok(Part { end: end.as_slice()?, number: number.as_slice()? }));
    let parts = parts.collect::<PyResult<Vec<_>>>()?;
    let ranges = shard.as_slice()?.iter().zip(offset.as_slice()?).zip(length.as_slice()?);
    let (mut numbers, mut packs, mut positions) = <(Vec<_>, Vec<_>, Vec<_>)>::default();
    for ((&shard, &offset), &length) in ranges {
        let first = usize::try_from(shard).ok().and_then(|shard| base.get(shard)).filter(|&&first| first >= 0);
        let begin = first.and_then(|first| first.checked_add(offset));
        let end = begin.filter(|_| length > 0).and_then(|begin| begin.checked_add(length));
        let found = begin.zip(end).and_then(|(begin, end)| kept::find(rows, &parts, begin, end));
        let Some(found) = found else { return Ok(None) };
        numbers.push(found.number);
        packs.push(found.pack);
        positions.push(found.position);
    }
    let array = |column| PyArray1::from_vec(py, column);
    Ok(Some((array(numbers), array(packs), array(positions))))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(find_whole, module)?)
}
