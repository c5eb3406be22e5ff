//! A chunk of rows: what one task of the pool does.

use super::fault::Fault;
use super::feature::{Found, find, find_lists};
use super::kind::Kind;
use super::wire::Part;
use super::{Column, Parser, Target, steps, values};
use crate::core::columns::{Chunk, Gathered, Records};
use crate::core::crc32c;
use crate::core::errors::RowFailure;
use crate::core::prefetch::prefetch;
use crate::records::framing::tfrecord::{FOOTER_BYTES, FRAME_BYTES, HEADER_BYTES};

/// How many rows ahead bytes are prefetched: buffers are visited in random order.
const ROWS_AHEAD: usize = 4;
/// Bytes to prefetch of each.
const BYTES_AHEAD: usize = 512;

/// A record that could be walked.
struct Record<'a> {
    bytes: &'a [u8],
    which: i64,
    start: usize,
}

/// Fills a chunk's part of the outputs and gathers the rest.
pub fn parse(parser: &Parser, records: Records<'_>, mut chunk: Chunk<'_>) -> Result<Vec<Gathered>, RowFailure> {
    let mut gathered: Vec<Gathered> = parser.columns.iter().map(|_| Gathered::default()).collect();
    let mut found = vec![Found::default(); parser.plain.len()];
    let mut lists = vec![Part::default(); parser.lists.len()];
    let (mut order, mut list_order) = (Vec::new(), Vec::new());
    for row in chunk.rows.clone() {
        if row + ROWS_AHEAD < chunk.rows.end {
            ask_for(records, row + ROWS_AHEAD);
        }
        let start = records.offset[row] as usize;
        let tell = |column: Option<usize>, fault: Fault| tell(parser, row, column, fault, start);
        let (bytes, body) = body(records, row, parser.verify).map_err(|fault| tell(None, fault))?;
        find(bytes, body, &parser.plain, &mut order, &mut found).map_err(|fault| tell(None, fault))?;
        if !lists.is_empty() {
            find_lists(bytes, body, &parser.lists, &mut list_order, &mut lists).map_err(|fault| tell(None, fault))?;
        }
        let record = Record { bytes, which: records.which[row], start: row - chunk.rows.start };
        for (number, column) in parser.columns.iter().enumerate() {
            let (out, gathered) = (&mut *chunk.outs[number], &mut gathered[number]);
            match column.feature.checked_sub(found.len()) {
                Some(list) => steps::store(bytes, lists[list], &column.target, parser.values_limit, gathered),
                None => store(&record, &found[column.feature], column, parser.values_limit, out, gathered),
            }
            .map_err(|fault| tell(Some(number), fault))?;
        }
    }
    Ok(gathered)
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
    let (bytes, place) = records.place(row).ok_or(Fault::Span)?;
    let (start, length) = (place.start, place.len());
    let frame = &bytes[place];
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
        Target::Fixed { dtype, .. } | Target::Ragged { dtype, .. } if !found.kind.fits(dtype) => {
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
            gathered.rows.push(held as i64);
            gathered.more(held * dtype.size()).map_or(Ok(()), |out| values::fill(bytes, found, dtype, out))
        }
        Target::Spans => store_span(record, found, column, gathered),
        Target::Texts { values, text } => store_texts(bytes, found, column, (values, text, limit), gathered),
        Target::Steps { .. } | Target::StepTexts { .. } | Target::Nested { .. } | Target::NestedTexts { .. } => {
            Err(Fault::Kind { found: found.kind })
        }
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
    gathered.push_span(which, offset, length);
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
            gathered.push_text(value);
            Ok(())
        })?,
        (Kind::None, None, _) => {}
        (Kind::None, Some(expected), Some(default)) => {
            for _ in 0..expected {
                gathered.push_text(default);
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
