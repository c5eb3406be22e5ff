//! Lines to text: each without its line end, checked to be UTF-8, one behind the other.

use crate::core::columns::{Records, no_memory};
use crate::core::errors::RowFailure;
use crate::records::framing::lines::trimmed;

/// Text of all rows: row i is `data[offsets[i]..offsets[i + 1]]`.
#[derive(Debug, PartialEq, Eq)]
pub struct Texts {
    /// The bytes.
    pub data: Vec<u8>,
    /// One more than rows.
    pub offsets: Vec<i64>,
}

/// The text of lines.
///
/// # Errors
/// The first row that is not UTF-8; the first one if the process may not have the memory for all.
pub fn texts(lines: Records<'_>) -> Result<Texts, RowFailure> {
    let bytes: i64 = lines.length.iter().map(|length| (*length).max(0)).fold(0, i64::saturating_add);
    let held: usize = lines.buffers.iter().map(|buffer| buffer.len()).sum();
    let mut data = Vec::new();
    data.try_reserve_exact(usize::try_from(bytes).unwrap_or(0).min(held)).map_err(|_| no_memory(0))?;
    let mut offsets = Vec::with_capacity(lines.which.len() + 1);
    offsets.push(0);
    for row in 0..lines.which.len() {
        let line = trimmed(record(lines, row).ok_or_else(|| outside(row))?);
        if let Err(error) = std::str::from_utf8(line) {
            let found = format!("byte {} of the line is not UTF-8", error.valid_up_to());
            let remedy = "convert the file to UTF-8, or repair it".to_owned();
            return Err(RowFailure { row, found, remedy });
        }
        data.extend_from_slice(line);
        offsets.push(data.len() as i64);
    }
    Ok(Texts { data, offsets })
}

/// The bytes of a record, None if its span does not lie in its buffer.
#[must_use]
pub fn record<'a>(records: Records<'a>, row: usize) -> Option<&'a [u8]> {
    let buffer = records.buffers.get(usize::try_from(records.which[row]).ok()?)?;
    let start = usize::try_from(records.offset[row]).ok()?;
    buffer.get(start..start.checked_add(usize::try_from(records.length[row]).ok()?)?)
}

/// The message about a span outside its buffer.
#[must_use]
pub fn outside(row: usize) -> RowFailure {
    let found = "a span that does not lie in its buffer".to_owned();
    RowFailure { row, found, remedy: "this is a mistake of the reader".to_owned() }
}
