//! Samples to columns: the headers in each record are read again, and every wanted member becomes a value.

use super::members::{Walk, place_of};
use super::npy;
use super::sample::{lower, split};
use crate::core::columns::{Chunk, Filled, Form, Gathered, Records, fill};
use crate::core::dtype::Dtype;
use crate::core::errors::{RowFailure, Trouble};
use crate::core::prefetch::prefetch;
use crate::records::example::values::store_integer;

/// What a member becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Its bytes, not copied.
    Spans,
    /// Its bytes, copied; `text` must be UTF-8.
    Texts {
        /// Whether it must be UTF-8.
        text: bool,
    },
    /// The whole number that is written in it.
    Number {
        /// Its type.
        dtype: Dtype,
    },
    /// The numbers of an .npy file; the first axis of `shape` is None if it varies.
    Array {
        /// Their type.
        dtype: Dtype,
        /// The length of each axis.
        shape: Vec<Option<usize>>,
    },
    /// The sample's key, of no member.
    Key,
}

impl Target {
    /// The form that the column takes.
    #[must_use]
    pub fn form(&self) -> Form {
        match self {
            Self::Spans => Form::Spans,
            Self::Texts { .. } | Self::Key => Form::Texts,
            Self::Number { dtype } => Form::Fixed { row_bytes: dtype.size() },
            Self::Array { dtype, shape } => {
                let values =
                    shape.iter().try_fold(1_usize, |values, &axis| axis.map(|axis| values.saturating_mul(axis)));
                values.map_or(Form::Ragged, |values| Form::Fixed { row_bytes: values.saturating_mul(dtype.size()) })
            }
        }
    }
}

/// One wanted column.
#[derive(Debug, Clone)]
pub struct Column {
    /// The extensions that it can have, in lower case; the first that a sample has counts.
    pub extensions: Vec<String>,
    /// What the member becomes.
    pub target: Target,
    /// How an error describes what is expected: "float32(3, 4)".
    pub expected: String,
    /// The bytes of a row that lacks the member.
    pub default: Option<Vec<u8>>,
}

/// A member of the sample that is being read.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    /// The place of its extension among those of the column, from 1 on; 0 is none.
    rank: usize,
    data: usize,
    size: usize,
}

/// Makes columns of samples; made once, used for every batch.
#[derive(Debug)]
pub struct Parser {
    columns: Vec<Column>,
    /// Numbers that one array may have where it varies.
    values_limit: usize,
}

/// How many rows ahead headers are prefetched: buffers are visited in random order.
const ROWS_AHEAD: usize = 4;

/// What was found, and what to do.
pub type Fault = (String, &'static str);

impl Found {
    /// The member's bytes; None if the sample has no such member.
    fn of(self, record: &[u8]) -> Option<&[u8]> {
        (self.rank > 0).then(|| &record[self.data..self.data + self.size])
    }
}

impl Parser {
    /// A parser for these columns; `values_limit` bounds the numbers of one array that varies.
    #[must_use]
    pub fn new(columns: Vec<Column>, values_limit: usize) -> Self {
        Self { columns, values_limit }
    }

    /// The columns in their order.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Parses all records on `pool` (None: on this thread). `outs` has one slice a column, see [`fill`].
    ///
    /// # Errors
    /// Of all rows that failed, the first.
    pub fn parse(
        &self,
        records: Records<'_>,
        outs: Vec<&mut [u8]>,
        pool: Option<&rayon::ThreadPool>,
    ) -> Result<Vec<Filled>, RowFailure> {
        let forms: Vec<Form> = self.columns.iter().map(|column| column.target.form()).collect();
        fill(records.which.len(), &forms, outs, pool, |chunk| self.parse_chunk(records, chunk))
    }

    fn parse_chunk(&self, records: Records<'_>, mut chunk: Chunk<'_>) -> Result<Vec<Gathered>, RowFailure> {
        let forms: Vec<Form> = self.columns.iter().map(|column| column.target.form()).collect();
        let mut gathered: Vec<Gathered> = self.columns.iter().map(|_| Gathered::default()).collect();
        let mut found = vec![Found::default(); self.columns.len()];
        let (mut walk, mut key) = (Walk::part(), String::new());
        for row in chunk.rows.clone() {
            if let Some((bytes, place)) =
                (row + ROWS_AHEAD < chunk.rows.end).then(|| records.place(row + ROWS_AHEAD)).flatten()
            {
                prefetch(&bytes[place.start..place.end.min(place.start + 512)]);
            }
            let tell = |(found, remedy): Fault| RowFailure { row, found, remedy: remedy.to_owned() };
            let (bytes, place) = records.place(row).ok_or_else(|| {
                tell(("a span that does not lie in its buffer".to_owned(), "a mistake of the reader"))
            })?;
            let record = &bytes[place.clone()];
            walk.restart();
            self.find(record, &mut walk, &mut key, &mut found).map_err(|trouble| tell(in_words(trouble)))?;
            for (number, column) in self.columns.iter().enumerate() {
                let at = row - chunk.rows.start;
                let value = match column.target {
                    Target::Key => Some(key.as_bytes()),
                    _ => found[number].of(record),
                };
                let row_bytes = forms[number].row_bytes();
                let out = &mut chunk.outs[number][at * row_bytes..(at + 1) * row_bytes];
                let place = (records.which[row], place.start + found[number].data);
                self.store(column, value, place, out, &mut gathered[number])
                    .map_err(|fault| tell(column.describe(fault)))?;
            }
        }
        Ok(gathered)
    }

    /// Finds the wanted members of a sample.
    #[inline]
    fn find(&self, mut record: &[u8], walk: &mut Walk, key: &mut String, found: &mut [Found]) -> Result<(), Trouble> {
        found.fill(Found::default());
        key.clear();
        while let Some(member) = walk.next(&mut record)? {
            let Some((of, extension)) = split(member.name).filter(|_| member.is_file) else { continue };
            if key.is_empty() {
                key.push_str(of);
            } else if key != of {
                let found = format!("a member of sample {of:?} in sample {key:?}");
                return Err(Trouble::data(place_of(member.start), found, CHANGED));
            }
            let extension = lower(extension);
            for (column, found) in self.columns.iter().zip(&mut *found) {
                let rank = column.extensions.iter().position(|wanted| *wanted == extension).map_or(0, |rank| rank + 1);
                if rank > 0 && (found.rank == 0 || rank < found.rank) {
                    *found = Found { rank, data: member.data as usize, size: member.size as usize };
                }
            }
        }
        Ok(())
    }

    /// Stores one value: in `out` where the column has a fixed size, else with what is gathered. `place`: buffer and byte of it.
    #[inline]
    fn store(
        &self,
        column: &Column,
        value: Option<&[u8]>,
        place: (i64, usize),
        out: &mut [u8],
        gathered: &mut Gathered,
    ) -> Result<(), Fault> {
        let default = || column.default.as_deref().ok_or_else(missing);
        match &column.target {
            Target::Spans => match value {
                Some(value) => gathered.push_span(place.0, place.1, value.len()),
                None => gathered.push_span(-1, 0, default()?.len()),
            },
            Target::Texts { .. } | Target::Key => {
                let value = value.map_or_else(default, Ok)?;
                if column.target != (Target::Texts { text: false }) && std::str::from_utf8(value).is_err() {
                    return Err(("bytes that are not UTF-8".to_owned(), "give the column the dtype \"bytes\""));
                }
                gathered.push_text(value);
                gathered.rows.push(1);
            }
            Target::Number { dtype } => match value {
                Some(value) => store_number(value, *dtype, out)?,
                None => out.copy_from_slice(default()?),
            },
            Target::Array { dtype, shape } => match value {
                Some(value) => self.store_array(value, *dtype, shape, out, gathered)?,
                None if out.is_empty() => return Err(missing()),
                None => out.copy_from_slice(default()?),
            },
        }
        Ok(())
    }

    fn store_array(
        &self,
        file: &[u8],
        dtype: Dtype,
        shape: &[Option<usize>],
        out: &mut [u8],
        gathered: &mut Gathered,
    ) -> Result<(), Fault> {
        let header = npy::parse(file).map_err(|found| (found, "write the member again as an array of numbers"))?;
        let fits = header.shape.len() == shape.len()
            && header.shape.iter().zip(shape).all(|(&axis, wanted)| wanted.is_none_or(|wanted| wanted == axis));
        if header.dtype != dtype || !fits {
            let found = format!("an array of {:?}{:?}", header.dtype, header.shape).to_lowercase();
            return Err((found, "give the column the shape of all samples; shape=(None, …) lets the first axis vary"));
        }
        if shape.iter().all(Option::is_some) {
            npy::store(file, &header, out);
            return Ok(());
        }
        let values: usize = header.shape.iter().product();
        if values > self.values_limit {
            let found = format!("an array of {values} numbers, the limit is {}", self.values_limit);
            return Err((found, "raise Limits.values if the file can be trusted"));
        }
        gathered.rows.push(values as i64);
        if let Some(out) = gathered.more(values * dtype.size()) {
            npy::store(file, &header, out);
        }
        Ok(())
    }
}

impl Column {
    #[cold]
    fn describe(&self, (found, remedy): Fault) -> Fault {
        (format!("member {:?}: {found}; expected {}", self.extensions.join(";"), self.expected), remedy)
    }
}

#[cold]
fn missing() -> Fault {
    ("the sample lacks it".to_owned(), "give the column a default, e.g. Column(feature=…, default=0)")
}

fn store_number(text: &[u8], dtype: Dtype, out: &mut [u8]) -> Result<(), Fault> {
    let value = std::str::from_utf8(text).ok().and_then(|text| text.trim_ascii().parse::<i64>().ok());
    let value = value.ok_or_else(|| {
        let start = String::from_utf8_lossy(&text[..text.len().min(20)]);
        (format!("{start:?} is no whole number"), "give the column the dtype \"string\" or \"bytes\"")
    })?;
    store_integer(value, dtype, out)
        .map_err(|_| (format!("the value {value} does not fit"), "give the column a wider dtype"))
}

#[cold]
fn in_words(trouble: Trouble) -> Fault {
    match trouble {
        Trouble::Data { place, found, .. } => (format!("{place} of the record: {found}"), CHANGED),
        other => (other.to_string(), CHANGED),
    }
}

const CHANGED: &str = "the file changed after it was indexed, or is damaged: index it again";

/// The members of a sample: extension in lower case, first byte, bytes.
///
/// # Errors
/// What was found, and what to do, if the record is damaged.
pub fn members(mut record: &[u8]) -> Result<Vec<(String, usize, usize)>, Fault> {
    let (mut walk, mut found) = (Walk::part(), Vec::new());
    while let Some(member) = walk.next(&mut record).map_err(in_words)? {
        if let Some((_, extension)) = split(member.name).filter(|_| member.is_file) {
            found.push((lower(extension).into_owned(), member.data as usize, member.size as usize));
        }
    }
    Ok(found)
}
