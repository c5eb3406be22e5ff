//! A chunk of rows: what one task of the pool does.

use super::fault::Fault;
use super::number::encode;
use super::scan::Cursor;
use super::{Node, Parser, Target};
use crate::core::columns::{Chunk, Gathered, Records};
use crate::core::dtype::Dtype;
use crate::core::errors::RowFailure;
use crate::core::prefetch::prefetch;
use crate::records::line_text::{outside, record};

/// How many rows ahead bytes are prefetched: rows are in random order.
const ROWS_AHEAD: usize = 2;
/// Bytes to prefetch of each.
const BYTES_AHEAD: usize = 1024;

/// What is known of a column in this row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    No,
    Null,
    Value,
}

/// What is wrong, and with which column.
type Failed = (Fault, Option<usize>);

/// The work on one row after the other.
struct Walk<'a, 'b> {
    parser: &'a Parser,
    outs: &'b mut [&'b mut [u8]],
    gathered: Vec<Gathered>,
    seen: Vec<Seen>,
    /// The last row of each object that leads to columns, from 1.
    entered: Vec<usize>,
    key: Vec<u8>,
    /// The row's number in the chunk.
    row: usize,
}

/// Fills a chunk's part of the outputs and gathers the rest.
pub fn parse(parser: &Parser, records: Records<'_>, chunk: Chunk<'_>) -> Result<Vec<Gathered>, RowFailure> {
    let Chunk { rows, mut outs } = chunk;
    let columns = parser.columns.len();
    let gathered = parser.columns.iter().map(|_| Gathered::default()).collect();
    let (seen, entered) = (vec![Seen::No; columns], vec![0; parser.objects]);
    let mut walk = Walk { parser, outs: &mut outs, gathered, seen, entered, key: Vec::new(), row: 0 };
    for row in rows.clone() {
        if let Some(bytes) = (row + ROWS_AHEAD < rows.end).then(|| record(records, row + ROWS_AHEAD)).flatten() {
            prefetch(&bytes[..bytes.len().min(BYTES_AHEAD)]);
        }
        walk.row = row - rows.start;
        let line = record(records, row).ok_or_else(|| outside(row))?;
        walk.line(line).map_err(|(fault, column)| {
            let column = column.map(|column| &parser.columns[column]);
            let key = column.map(|column| (column.path.join("."), column.expected.as_str()));
            fault.describe(row, key.as_ref().map(|(key, expected)| (key.as_str(), *expected)))
        })?;
    }
    Ok(walk.gathered)
}

impl<'a> Walk<'a, '_> {
    fn line(&mut self, line: &[u8]) -> Result<(), Failed> {
        let line = std::str::from_utf8(line)
            .map_err(|error| (Fault::Syntax { at: error.valid_up_to(), what: "bytes that are not UTF-8" }, None))?;
        self.seen.fill(Seen::No);
        let mut cursor = Cursor::new(line);
        if cursor.peek() != b'{' {
            let at = cursor.at();
            let what = "the line is no object ({\"key\": value, …})";
            return Err((Fault::Syntax { at, what }, None));
        }
        self.object(&mut cursor, &self.parser.root)?;
        if cursor.peek() != 0 || cursor.at() != line.len() {
            return Err((Fault::Syntax { at: cursor.at(), what: "something follows the object" }, None));
        }
        (0..self.seen.len()).try_for_each(|column| self.finish(column).map_err(|fault| (fault, Some(column))))
    }

    fn object(&mut self, cursor: &mut Cursor<'_>, node: &'a Node) -> Result<(), Failed> {
        let plain = |fault| (fault, None);
        cursor.expect(b'{', "an object is missing").map_err(plain)?;
        if cursor.take(b'}') {
            return Ok(());
        }
        let mut next = 0;
        loop {
            let key = cursor.key().map_err(plain)?;
            let child = if key.escaped {
                self.key.clear();
                key.push_to(&mut self.key).map_err(plain)?;
                node.find(&self.key, &mut next)
            } else {
                node.find(key.raw, &mut next)
            };
            match child {
                Some(child) => self.value(cursor, child)?,
                None => cursor.skip().map_err(plain)?,
            }
            if !cursor.take(b',') {
                return cursor.expect(b'}', "a comma or a closing bracket is missing").map_err(plain);
            }
        }
    }

    /// The value of a wanted key: for its columns, and for those of the object that it is.
    fn value(&mut self, cursor: &mut Cursor<'_>, node: &'a Node) -> Result<(), Failed> {
        let opened = cursor.peek();
        let start = cursor.at();
        if !node.children.is_empty() {
            self.enter(node, start)?;
        }
        for &column in &node.columns {
            cursor.back_to(start);
            self.column(cursor, column).map_err(|fault| (fault, Some(column)))?;
        }
        if !node.children.is_empty() && opened == b'{' {
            cursor.back_to(start);
            return self.object(cursor, node);
        }
        if node.columns.is_empty() {
            if opened != b'n' {
                return Err((no_object(cursor), node.first_column()));
            }
            cursor.skip().map_err(|fault| (fault, None))?;
        }
        Ok(())
    }

    /// An object that leads to columns may come once in a row: of two, each could hold some of them.
    fn enter(&mut self, node: &Node, at: usize) -> Result<(), Failed> {
        let row = self.row + 1;
        if std::mem::replace(&mut self.entered[node.object], row) == row {
            return Err((Fault::TwiceOuter { at }, node.first_column()));
        }
        Ok(())
    }

    fn column(&mut self, cursor: &mut Cursor<'_>, column: usize) -> Result<(), Fault> {
        let first = cursor.peek();
        let start = cursor.at();
        if std::mem::replace(&mut self.seen[column], if first == b'n' { Seen::Null } else { Seen::Value }) != Seen::No {
            return Err(Fault::Twice { at: start });
        }
        if first == b'n' {
            return cursor.literal();
        }
        let limit = self.parser.values_limit;
        let gathered = &mut self.gathered[column];
        match &self.parser.columns[column].target {
            Target::Fixed { dtype, shape } => {
                let bytes = self.parser.columns[column].target.form().row_bytes();
                let mut out = &mut self.outs[column][self.row * bytes..(self.row + 1) * bytes];
                let store = &mut |value: &[u8]| {
                    let (place, rest) = std::mem::take(&mut out).split_at_mut_checked(value.len())?;
                    place.copy_from_slice(value);
                    out = rest;
                    Some(())
                };
                numbers(cursor, *dtype, shape, store)
            }
            Target::Ragged { dtype, shape } => {
                let mut values = 0;
                list(cursor, None, limit, |cursor| {
                    values += 1;
                    let store = &mut |value: &[u8]| {
                        if gathered.room(value.len()) {
                            gathered.data.extend_from_slice(value);
                        }
                        Some(())
                    };
                    numbers(cursor, *dtype, shape, store)
                })?;
                gathered.rows.push(values);
                Ok(())
            }
            Target::Text => text(cursor, gathered),
            Target::Texts { values } => {
                let before = gathered.places.len();
                list(cursor, *values, limit, |cursor| text(cursor, gathered))?;
                gathered.rows.push((gathered.places.len() - before) as i64);
                Ok(())
            }
            Target::Raw => {
                cursor.skip()?;
                gathered.push_text(cursor.between(start, cursor.at()));
                Ok(())
            }
        }
    }

    /// Puts the default in the place of a value that is missing or null.
    fn finish(&mut self, number: usize) -> Result<(), Fault> {
        let missing = match self.seen[number] {
            Seen::Value => return Ok(()),
            Seen::Null => Fault::Null,
            Seen::No => Fault::Missing,
        };
        let column = &self.parser.columns[number];
        let gathered = &mut self.gathered[number];
        match (&column.target, &column.default) {
            (Target::Ragged { .. } | Target::Texts { values: None }, _) => gathered.rows.push(0),
            (Target::Fixed { .. }, Some(default)) => {
                self.outs[number][self.row * default.len()..(self.row + 1) * default.len()].copy_from_slice(default);
            }
            (Target::Text | Target::Raw, Some(default)) => gathered.push_text(default),
            (Target::Texts { values: Some(values) }, Some(default)) => {
                (0..*values).for_each(|_| gathered.push_text(default));
                gathered.rows.push(*values as i64);
            }
            (_, None) => return Err(missing),
        }
        Ok(())
    }
}

/// What stands where an object belongs; a fault of its own if it is nothing at all.
fn no_object(cursor: &mut Cursor<'_>) -> Fault {
    match kind_fault(cursor) {
        Fault::Kind { at, found } => Fault::NoObject { at, found },
        other => other,
    }
}

fn kind_fault(cursor: &mut Cursor<'_>) -> Fault {
    let found = match cursor.peek() {
        b'"' => "text",
        b'{' => "an object",
        b'[' => "a list",
        b't' | b'f' => "true or false",
        b'n' => "null",
        b'-' | b'0'..=b'9' | b'N' | b'I' => "a number",
        _ => return Fault::Syntax { at: cursor.at(), what: "a value is missing" },
    };
    Fault::Kind { at: cursor.at(), found }
}

#[inline]
fn text(cursor: &mut Cursor<'_>, gathered: &mut Gathered) -> Result<(), Fault> {
    if cursor.peek() != b'"' {
        return Err(kind_fault(cursor));
    }
    let found = cursor.string("")?;
    let start = gathered.data.len();
    if gathered.room(found.raw.len()) {
        found.push_to(&mut gathered.data)?;
        gathered.end_text(start);
    }
    Ok(())
}

/// The values of a list, of just so many if `count` says so.
fn list<'a>(
    cursor: &mut Cursor<'a>,
    count: Option<usize>,
    limit: usize,
    mut each: impl FnMut(&mut Cursor<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    if cursor.peek() != b'[' {
        return Err(kind_fault(cursor));
    }
    let start = cursor.at();
    cursor.take(b'[');
    let mut found = 0;
    if !cursor.take(b']') {
        loop {
            if count == Some(found) {
                return Err(Fault::Count { at: start, found: found + 1 });
            }
            if found == limit {
                return Err(Fault::Many { at: start, limit });
            }
            each(cursor)?;
            found += 1;
            if !cursor.take(b',') {
                cursor.expect(b']', "a comma or a closing bracket is missing")?;
                break;
            }
        }
    }
    if count.is_some_and(|count| count != found) { Err(Fault::Count { at: start, found }) } else { Ok(()) }
}

/// Numbers in lists of just these lengths, in order.
fn numbers(
    cursor: &mut Cursor<'_>,
    dtype: Dtype,
    shape: &[usize],
    store: &mut impl FnMut(&[u8]) -> Option<()>,
) -> Result<(), Fault> {
    if let Some((&count, inner)) = shape.split_first() {
        return list(cursor, Some(count), count, |cursor| numbers(cursor, dtype, inner, store));
    }
    let first = cursor.peek();
    let at = cursor.at();
    let value = match (first, dtype) {
        (b't' | b'f', Dtype::Bool) => {
            cursor.literal()?;
            let mut value = [0; 8];
            value[0] = u8::from(first == b't');
            value
        }
        (b'-' | b'0'..=b'9' | b'N' | b'I', _) if dtype != Dtype::Bool => {
            encode(cursor.number()?, dtype).ok_or(Fault::Range { at })?
        }
        _ => return Err(kind_fault(cursor)),
    };
    store(&value[..dtype.size()]).ok_or(Fault::Count { at, found: shape.len() })
}
