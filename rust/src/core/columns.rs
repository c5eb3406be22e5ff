//! What parsers of records share: rows are cut into chunks, each chunk fills its part of the outputs or gathers what has no
//! fixed size, and what the chunks gathered is joined in their order.

use std::ops::Range;

use rayon::prelude::*;

use super::errors::RowFailure;

/// Records as places in buffers, their frames included.
#[derive(Debug, Clone, Copy)]
pub struct Records<'a> {
    /// The buffers.
    pub buffers: &'a [&'a [u8]],
    /// The buffer of each record.
    pub which: &'a [i64],
    /// Where each begins in its buffer.
    pub offset: &'a [i64],
    /// How many bytes it has.
    pub length: &'a [i64],
}

impl<'a> Records<'a> {
    /// The buffer of a record and its place in it; None if that does not lie in the buffer.
    #[inline(always)]
    #[must_use]
    pub fn place(&self, row: usize) -> Option<(&'a [u8], Range<usize>)> {
        let bytes: &'a [u8] = self.buffers.get(usize::try_from(self.which[row]).ok()?)?;
        let start = usize::try_from(self.offset[row]).ok()?;
        let end = start.checked_add(usize::try_from(self.length[row]).ok()?)?;
        (end <= bytes.len()).then_some((bytes, start..end))
    }
}

/// The form that a column takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// So many bytes a row, in the output that the caller gives.
    Fixed {
        /// Bytes of one row.
        row_bytes: usize,
    },
    /// Places in the records' buffers.
    Spans,
    /// Numbers, any number of them a row.
    Ragged,
    /// Values of bytes, copied one behind the other, any number of them a row.
    Texts,
    /// Any number of steps a row, and any number of values (numbers or bytes) a step.
    Nested,
}

impl Form {
    /// Bytes of one row in the output; 0 where there is none.
    #[must_use]
    pub const fn row_bytes(self) -> usize {
        if let Self::Fixed { row_bytes } = self { row_bytes } else { 0 }
    }
}

/// What a column became; numbers are in the machine's byte order.
#[derive(Debug, PartialEq, Eq)]
pub enum Filled {
    /// The output that was given.
    Fixed,
    /// Places in the records' buffers; `which` is -1 (and `offset` 0) where the default takes the value's place.
    Spans {
        /// The buffer of each row.
        which: Vec<i64>,
        /// Where its value begins.
        offset: Vec<i64>,
        /// How many bytes it has.
        length: Vec<i64>,
    },
    /// Numbers of all rows; row i has those from `offsets[i]` to `offsets[i + 1]`.
    Ragged {
        /// The numbers' bytes.
        values: Vec<u8>,
        /// One more than rows.
        offsets: Vec<i64>,
    },
    /// Bytes of all rows: value j is `data[ends[j]..ends[j + 1]]`, row i has the values `offsets[i]..offsets[i + 1]`.
    Texts {
        /// The bytes.
        data: Vec<u8>,
        /// One more than values.
        ends: Vec<i64>,
        /// One more than rows.
        offsets: Vec<i64>,
    },
    /// Values of all steps: step j has the values `steps[j]..steps[j + 1]`, row i has the steps `offsets[i]..offsets[i + 1]`.
    Nested {
        /// The values' bytes.
        data: Vec<u8>,
        /// Where each value of bytes begins, one more than values; only [0] for numbers.
        ends: Vec<i64>,
        /// One more than steps.
        steps: Vec<i64>,
        /// One more than rows.
        offsets: Vec<i64>,
    },
}

/// What a chunk collects for a column that has no output of its own.
#[derive(Debug, Default)]
pub struct Gathered {
    /// `Spans`: which; `Ragged` and `Texts`: values in each row. `Nested`: steps in each row.
    pub rows: Vec<i64>,
    /// `Spans`: offsets. `Texts` and `Nested`: the length of each value of bytes.
    pub places: Vec<i64>,
    /// `Spans`: lengths. `Nested`: values in each step.
    pub lengths: Vec<i64>,
    /// `Ragged`, `Texts` and `Nested`: the values.
    pub data: Vec<u8>,
    /// Whether values are missing, since the process may not have the memory for them; `fill` then fails.
    lacks_memory: bool,
}

impl Gathered {
    /// Makes room for so many bytes more; false if the process may not have them.
    #[inline]
    pub fn room(&mut self, bytes: usize) -> bool {
        let fits = self.data.capacity() - self.data.len() >= bytes || self.data.try_reserve(bytes).is_ok();
        self.lacks_memory |= !fits;
        fits
    }

    /// So many bytes more, of zeros; None if the process may not have them.
    pub fn more(&mut self, bytes: usize) -> Option<&mut [u8]> {
        if !self.room(bytes) {
            return None;
        }
        let start = self.data.len();
        self.data.resize(start + bytes, 0);
        Some(&mut self.data[start..])
    }

    /// Notes where a value of bytes ends that begins at `start` of the data.
    #[inline]
    pub fn end_text(&mut self, start: usize) {
        if self.places.len() < self.places.capacity() || self.places.try_reserve(1).is_ok() {
            self.places.push((self.data.len() - start) as i64);
        } else {
            self.lacks_memory = true;
        }
    }

    /// Adds a row of `Spans`.
    #[inline]
    pub fn push_span(&mut self, which: i64, offset: usize, length: usize) {
        self.rows.push(which);
        self.places.push(offset as i64);
        self.lengths.push(length as i64);
    }

    /// Adds a value of `Texts` to the row that is being made.
    #[inline]
    pub fn push_text(&mut self, text: &[u8]) {
        let start = self.data.len();
        if self.room(text.len()) {
            self.data.extend_from_slice(text);
            self.end_text(start);
        }
    }
}

/// Neighbouring rows and their part of each output (empty for what is not `Fixed`).
#[derive(Debug)]
pub struct Chunk<'a> {
    /// The rows.
    pub rows: Range<usize>,
    /// One a column.
    pub outs: Vec<&'a mut [u8]>,
}

/// Columns of so many rows: `work` is called for chunks of them, in parallel on `pool` (None: on this thread), and gives back
/// one `Gathered` a column.
///
/// # Errors
/// Of all rows that failed, the first; the same whatever the number of threads. The first row of those whose values the process has no
/// memory for.
///
/// # Panics
/// If the slices of `outs` do not have the lengths that they should.
pub fn fill(
    rows: usize,
    forms: &[Form],
    outs: Vec<&mut [u8]>,
    pool: Option<&rayon::ThreadPool>,
    work: impl Fn(Chunk<'_>) -> Result<Vec<Gathered>, RowFailure> + Sync,
) -> Result<Vec<Filled>, RowFailure> {
    assert_eq!(outs.len(), forms.len(), "one output a column");
    let chunk_rows = pool.map_or(rows, |pool| rows.div_ceil(4 * pool.current_num_threads()).clamp(32, 1024)).max(1);
    let chunks = cut(rows, chunk_rows, forms, outs);
    let work = |chunk: Chunk<'_>| {
        let first = chunk.rows.start;
        let gathered = work(chunk)?;
        if gathered.iter().any(|column| column.lacks_memory) { Err(no_memory(first)) } else { Ok(gathered) }
    };
    let parts: Vec<Result<Vec<Gathered>, RowFailure>> = match pool {
        Some(pool) if chunks.len() > 1 => pool.install(|| chunks.into_par_iter().map(&work).collect()),
        _ => chunks.into_iter().map(&work).collect(),
    };
    join(parts.into_iter().collect::<Result<Vec<_>, _>>()?, forms)
}

/// The failure of rows whose values are more than the process may have.
#[cold]
#[must_use]
pub fn no_memory(row: usize) -> RowFailure {
    let found = "its values ask for more memory than this process may have".to_owned();
    let remedy =
        "give the process more memory, or refuse large records with Limits(record_bytes=…, values=…)".to_owned();
    RowFailure { row, found, remedy }
}

/// Cuts rows and outputs into chunks.
fn cut<'a>(rows: usize, chunk_rows: usize, forms: &[Form], outs: Vec<&'a mut [u8]>) -> Vec<Chunk<'a>> {
    let mut chunks: Vec<Chunk<'a>> = (0..rows)
        .step_by(chunk_rows)
        .map(|first| Chunk { rows: first..(first + chunk_rows).min(rows), outs: Vec::with_capacity(outs.len()) })
        .collect();
    for (form, out) in forms.iter().zip(outs) {
        let row_bytes = form.row_bytes();
        assert_eq!(out.len(), rows * row_bytes, "an output of another size than the rows");
        let mut rest = out;
        for chunk in &mut chunks {
            let (part, after) = rest.split_at_mut(chunk.rows.len() * row_bytes);
            chunk.outs.push(part);
            rest = after;
        }
    }
    chunks
}

/// Joins what the chunks gathered, in their order.
fn join(parts: Vec<Vec<Gathered>>, forms: &[Form]) -> Result<Vec<Filled>, RowFailure> {
    let mut all: Vec<Vec<Gathered>> = forms.iter().map(|_| Vec::with_capacity(parts.len())).collect();
    for part in parts {
        for (column, gathered) in all.iter_mut().zip(part) {
            column.push(gathered);
        }
    }
    all.into_iter().zip(forms).map(|(parts, form)| join_column(parts, *form)).collect()
}

fn join_column(parts: Vec<Gathered>, form: Form) -> Result<Filled, RowFailure> {
    let mut parts = parts.into_iter();
    let mut joined = parts.next().unwrap_or_default();
    let rest = parts.as_slice();
    let reserved = joined
        .rows
        .try_reserve_exact(rest.iter().map(|part| part.rows.len()).sum())
        .and_then(|()| joined.places.try_reserve_exact(rest.iter().map(|part| part.places.len()).sum()))
        .and_then(|()| joined.lengths.try_reserve_exact(rest.iter().map(|part| part.lengths.len()).sum()))
        .and_then(|()| joined.data.try_reserve_exact(rest.iter().map(|part| part.data.len()).sum()));
    reserved.map_err(|_| no_memory(0))?;
    for part in parts {
        joined.rows.extend_from_slice(&part.rows);
        joined.places.extend_from_slice(&part.places);
        joined.lengths.extend_from_slice(&part.lengths);
        joined.data.extend_from_slice(&part.data);
    }
    let Gathered { rows, places, lengths, data, .. } = joined;
    Ok(match form {
        Form::Fixed { .. } => Filled::Fixed,
        Form::Spans => Filled::Spans { which: rows, offset: places, length: lengths },
        Form::Ragged => Filled::Ragged { values: data, offsets: sums(&rows) },
        Form::Texts => Filled::Texts { data, ends: sums(&places), offsets: sums(&rows) },
        Form::Nested => Filled::Nested { data, ends: sums(&places), steps: sums(&lengths), offsets: sums(&rows) },
    })
}

/// 0 and the running sums.
fn sums(lengths: &[i64]) -> Vec<i64> {
    let mut sum = 0;
    let running = lengths.iter().map(|length| {
        sum += length;
        sum
    });
    std::iter::once(0).chain(running).collect()
}
