//! Bindings of `extents`.

use numpy::{PyArray1, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::files::{Table, outputs, to_python};
use super::{Bytes, Ids, Out, io_pool, misuse};
use crate::io::extents::{self, Part, ROW_BYTES, Wanted};

/// The pieces of ranges, their rows of the table, and the place where each range begins.
type Places<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<u8>>, Bound<'py, PyArray1<i64>>);

/// The pieces that hold bytes [offset[i], offset[i] + length[i]) of file shard[i], whose own places begin at base[shard[i]]; None
/// unless each of these ranges is held whole by one piece. parts: ends and numbers of pieces, in their order.
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
    if [offset.len(), length.len()] != [count; 2] || rows.len() % ROW_BYTES != 0 {
        return Err(misuse("shard, offset and length must be equally long, and rows whole"));
    }
    // A few bisections take less time than releasing and taking the interpreter.
    let (rows, base) = (rows.as_slice()?, base.as_slice()?);
    let parts = parts.iter().map(|(end, number)| Ok(Part { end: end.as_slice()?, number: number.as_slice()? }));
    let parts = parts.collect::<PyResult<Vec<_>>>()?;
    let ranges = shard.as_slice()?.iter().zip(offset.as_slice()?).zip(length.as_slice()?);
    let (mut numbers, mut found, mut begins) = <(Vec<_>, Vec<_>, Vec<_>)>::default();
    for ((&shard, &offset), &length) in ranges {
        let first = usize::try_from(shard).ok().and_then(|shard| base.get(shard)).filter(|&&first| first >= 0);
        let begin = first.and_then(|first| first.checked_add(offset));
        let end = begin.filter(|_| length > 0).and_then(|begin| begin.checked_add(length));
        let Some((begin, end)) = begin.zip(end) else { return Ok(None) };
        let Some((number, row)) = extents::find(rows, &parts, begin, end) else { return Ok(None) };
        numbers.push(number);
        found.extend_from_slice(row);
        begins.push(begin);
    }
    Ok(Some((PyArray1::from_vec(py, numbers), PyArray1::from_vec(py, found), PyArray1::from_vec(py, begins))))
}

/// Fills `out[at[i]..][..length[i]]` with the bytes from place begin[i] on of the piece in row i; these must not overlap. Packs are named by
/// their numbers. Gives the numbers of those pieces that are damaged.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn read_pieces<'py>(
    py: Python<'py>,
    path_offsets: Ids<'py>,
    path_bytes: Bytes<'py>,
    sizes: Ids<'py>,
    rows: Bytes<'py>,
    begin: Ids<'py>,
    length: Ids<'py>,
    mut out: Out<'py>,
    at: Ids<'py>,
    threads: usize,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let table = Table::new(&path_offsets, &path_bytes, &sizes)?;
    let (begin, rows) = (begin.as_slice()?, rows.as_slice()?.as_chunks::<ROW_BYTES>().0);
    let outputs = outputs(out.as_slice_mut()?, at.as_slice()?, length.as_slice()?)?;
    if [begin.len(), rows.len()] != [outputs.len(); 2] {
        return Err(misuse("rows, begin, length and at must be equally long"));
    }
    let mut turn = Vec::with_capacity(begin.len());
    let mut wanted = Vec::with_capacity(begin.len());
    for (i, mine) in outputs {
        let outside = || misuse(format!("piece {i} does not hold the range, or its pack is not known"));
        let mut one = Wanted::of(&rows[i], begin[i], mine).ok_or_else(outside)?;
        (one.path, one.pack_bytes) = table.file(one.pack).ok_or_else(outside)?;
        turn.push(i);
        wanted.push(one);
    }
    let read = match wanted.len() {
        0 | 1 => py.detach(|| extents::read_in_turn(wanted.iter_mut())), // this thread waits anyway
        count => {
            let pool = io_pool(threads)?;
            py.detach(|| pool.install(|| extents::read(&mut wanted, count.div_ceil(threads.max(1) * 4))))
        }
    };
    read.map_err(to_python)?;
    let damaged = turn.iter().zip(&wanted).filter(|(_, one)| one.is_damaged).map(|(&i, _)| i as i64);
    Ok(PyArray1::from_vec(py, damaged.collect()))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(find_whole, module)?)?;
    module.add_function(wrap_pyfunction!(read_pieces, module)?)
}
