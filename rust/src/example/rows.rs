//! A chunk of rows: what one task of the pool does.

use std::ops::Range;

use super::fault::{Fault, RowFailure};
use super::feature::{Found, Kind, find};
use super::wire::Part;
use super::{Column, Filled, Parser, Records, Target, values};
use crate::crc32c;
use crate::framing::tfrecord::{FOOTER_BYTES, FRAME_BYTES, HEADER_BYTES};
use crate::prefetch::prefetch;

/// Rows ahead whose bytes are asked for: their buffers are visited in random order.
const ROWS_AHEAD: usize = 4;
/// Bytes of them that are asked for.
const BYTES_AHEAD: usize = 512;

/// What a chunk collects for a column that has no output of its own.
#[derive(Debug, Default)]
pub struct Gathered {
    /// `Spans`: which; `Ragged` and `Texts`: values in each row.
    rows: Vec<i64>,
    /// `Spans`: offsets. `Texts`: the length of each value.
    places: Vec<i64>,
    /// `Spans`: lengths.
    lengths: Vec<i64>,
    /// `Ragged` and `Texts`: the values.
    data: Vec<u8>,
}

/// Neighbouring rows and their part of each output.
#[derive(Debug)]
pub struct Chunk<'a> {
    rows: Range<usize>,
    outs: Vec<&'a mut [u8]>,
}

/// A record that could be walked.
struct Record<'a> {
    bytes: &'a [u8],
    which: i64,
    start: usize,
}

impl<'a> Chunk<'a> {
    pub fn new(rows: Range<usize>, columns: usize) -> Self {
        Self { rows, outs: Vec::with_capacity(columns) }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn push(&mut self, out: &'a mut [u8]) {
        self.outs.push(out);
    }

    /// Fills this chunk's part of the outputs and gathers the rest.
    pub fn parse(mut self, parser: &Parser, records: Records<'_>) -> Result<Vec<Gathered>, RowFailure> {
        let mut gathered: Vec<Gathered> = parser.columns.iter().map(|_| Gathered::default()).collect();
        let mut found = vec![Found::default(); parser.names.len()];
        let mut order = Vec::new();
        for row in self.rows.clone() {
            if row + ROWS_AHEAD < self.rows.end {
                ask_for(records, row + ROWS_AHEAD);
            }
            let start = records.offset[row] as usize;
            let tell = |column: Option<usize>, fault: Fault| tell(parser, row, column, fault, start);
            let (bytes, body) = body(records, row, parser.verify).map_err(|fault| tell(None, fault))?;
            find(bytes, body, &parser.names, &mut order, &mut found).map_err(|fault| tell(None, fault))?;
            let record = Record { bytes, which: records.which[row], start: row - self.rows.start };
            for (number, column) in parser.columns.iter().enumerate() {
                let (out, gathered) = (&mut *self.outs[number], &mut gathered[number]);
                store(&record, &found[column.feature], column, parser.values_limit, out, gathered)
                    .map_err(|fault| tell(Some(number), fault))?;
            }
        }
        Ok(gathered)
    }
}

#[cold]
fn tell(parser: &Parser, row: usize, column: Option<usize>, fault: Fault, start: usize) -> RowFailure {
    let column = column.map(|column| &parser.columns[column]);
    let feature = column.map(|column| parser.features[column.feature].as_str());
    let expected = column.map_or("", |column| column.expected.as_str());
    let (found, remedy) = fault.describe(feature, expected, start);
    RowFailure { row, found, remedy }
}

#[inline(always)]
fn ask_for(records: Records<'_>, row: usize) {
    let buffer = usize::try_from(records.which[row]).ok().and_then(|which| records.buffers.get(which));
    if let Some(bytes) = buffer.and_then(|buffer| buffer.get(records.offset[row] as usize..)) {
        prefetch(&bytes[..bytes.len().min(BYTES_AHEAD).min(records.length[row] as usize)]);
    }
}

/// The buffer of a record and the place of its data in it, checked.
#[inline(always)]
pub fn body<'a>(records: Records<'a>, row: usize, verify: bool) -> Result<(&'a [u8], Part), Fault> {
    let which = usize::try_from(records.which[row]).map_err(|_| Fault::Span)?;
    let start = usize::try_from(records.offset[row]).map_err(|_| Fault::Span)?;
    let length = usize::try_from(records.length[row]).map_err(|_| Fault::Span)?;
    let bytes: &[u8] = records.buffers.get(which).ok_or(Fault::Span)?;
    let frame = start.checked_add(length).and_then(|end| bytes.get(start..end)).ok_or(Fault::Span)?;
    let stated = frame.first_chunk::<8>().map_or(0, |length| u64::from_le_bytes(*length));
    if length < FRAME_BYTES || stated != (length - FRAME_BYTES) as u64 {
        return Err(Fault::Frame { stated, indexed: length.saturating_sub(FRAME_BYTES) as u64 });
    }
    let (data, sum) = frame[HEADER_BYTES..].split_at(length - FRAME_BYTES);
    if verify {
        let found = crc32c::masked(data);
        let stated = u32::from_le_bytes([sum[0], sum[1], sum[2], sum[3]]);
        if found != stated {
            return Err(Fault::Checksum { found, stated });
        }
    }
    Ok((bytes, Part { start: start + HEADER_BYTES, end: start + length - FOOTER_BYTES }))
}

/// Stores one feature of one record.
#[inline(always)]
fn store(
    record: &Record<'_>,
    found: &Found,
    column: &Column,
    limit: usize,
    out: &mut [u8],
    gathered: &mut Gathered,
) -> Result<(), Fault> {
    let bytes = record.bytes;
    match column.target {
        Target::Fixed { dtype, .. } | Target::Ragged { dtype, .. } if !dtype.takes(found.kind) => {
            Err(Fault::Kind { found: found.kind })
        }
        Target::Fixed { dtype, values } => {
            let size = values * dtype.size();
            let out = &mut out[record.start * size..(record.start + 1) * size];
            if found.kind == Kind::None {
                out.copy_from_slice(column.default.as_deref().ok_or(Fault::Missing)?);
                return Ok(());
            }
            let held = values::count(bytes, found)?;
            if held != values {
                return Err(Fault::Count { found: held });
            }
            values::fill(bytes, found, dtype, out)
        }
        Target::Ragged { dtype, step } => {
            let held = values::count(bytes, found)?;
            if held > limit {
                return Err(Fault::Many { found: held, limit });
            }
            if held % step != 0 {
                return Err(Fault::Count { found: held });
            }
            let start = gathered.data.len();
            gathered.data.resize(start + held * dtype.size(), 0);
            gathered.rows.push(held as i64);
            values::fill(bytes, found, dtype, &mut gathered.data[start..])
        }
        Target::Spans => store_span(record, found, column, gathered),
        Target::Texts { values, text } => store_texts(bytes, found, column, (values, text, limit), gathered),
    }
}

#[inline]
fn store_span(record: &Record<'_>, found: &Found, column: &Column, gathered: &mut Gathered) -> Result<(), Fault> {
    let (which, offset, length) = match found.kind {
        Kind::Bytes => {
            let (mut held, mut part) = (0, Part::default());
            values::each_bytes(record.bytes, found, |value| {
                held += 1;
                part = value;
                Ok(())
            })?;
            if held != 1 {
                return Err(Fault::Count { found: held });
            }
            (record.which, part.start, part.len())
        }
        Kind::None => (-1, 0, column.default.as_ref().ok_or(Fault::Missing)?.len()),
        kind => return Err(Fault::Kind { found: kind }),
    };
    gathered.rows.push(which);
    gathered.places.push(offset as i64);
    gathered.lengths.push(length as i64);
    Ok(())
}

fn store_texts(
    bytes: &[u8],
    found: &Found,
    column: &Column,
    (expected, text, limit): (Option<usize>, bool, usize),
    gathered: &mut Gathered,
) -> Result<(), Fault> {
    let mut held = 0;
    match (found.kind, expected, &column.default) {
        (Kind::Bytes, ..) => values::each_bytes(bytes, found, |part| {
            let value = &bytes[part.start..part.end];
            if text && std::str::from_utf8(value).is_err() {
                return Err(Fault::Text);
            }
            held += 1;
            gathered.data.extend_from_slice(value);
            gathered.places.push(value.len() as i64);
            Ok(())
        })?,
        (Kind::None, None, _) => {}
        (Kind::None, Some(expected), Some(default)) => {
            for _ in 0..expected {
                gathered.data.extend_from_slice(default);
                gathered.places.push(default.len() as i64);
            }
            held = expected;
        }
        (Kind::None, Some(_), None) => return Err(Fault::Missing),
        (kind, ..) => return Err(Fault::Kind { found: kind }),
    }
    if held > limit {
        return Err(Fault::Many { found: held, limit });
    }
    if expected.is_some_and(|expected| expected != held) {
        return Err(Fault::Count { found: held });
    }
    gathered.rows.push(held as i64);
    Ok(())
}

/// Joins what the chunks gathered, in their order.
pub fn join(parts: Vec<Vec<Gathered>>, columns: &[Column]) -> Vec<Filled> {
    let mut all: Vec<Vec<Gathered>> = columns.iter().map(|_| Vec::with_capacity(parts.len())).collect();
    for part in parts {
        for (column, gathered) in all.iter_mut().zip(part) {
            column.push(gathered);
        }
    }
    all.into_iter().zip(columns).map(|(parts, column)| join_column(parts, &column.target)).collect()
}

fn join_column(parts: Vec<Gathered>, target: &Target) -> Filled {
    let mut joined = Gathered::default();
    let mut parts = parts.into_iter();
    if let Some(first) = parts.next() {
        joined = first;
    }
    for part in parts {
        joined.rows.extend_from_slice(&part.rows);
        joined.places.extend_from_slice(&part.places);
        joined.lengths.extend_from_slice(&part.lengths);
        joined.data.extend_from_slice(&part.data);
    }
    let Gathered { rows, places, lengths, data } = joined;
    match target {
        Target::Fixed { .. } => Filled::Fixed,
        Target::Spans => Filled::Spans { which: rows, offset: places, length: lengths },
        Target::Ragged { .. } => Filled::Ragged { values: data, offsets: sums(&rows) },
        Target::Texts { .. } => Filled::Texts { data, ends: sums(&places), offsets: sums(&rows) },
    }
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
