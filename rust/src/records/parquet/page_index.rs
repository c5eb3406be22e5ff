//! The page index: where a column's pages lie, which rows they hold, and between which bounds.

use super::compact::{BINARY, Fault, LONG, Reader, STRUCT};

/// Pages of a column of a row group, in ascending order and without gaps.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// The byte of the file where each begins.
    pub offset: Vec<i64>,
    /// Bytes of each, its header included.
    pub length: Vec<i64>,
    /// The row of the row group that each begins with.
    pub first_row: Vec<i64>,
}

impl Pages {
    /// Reads an offset index of a row group of so many rows, whose pages must fill the bytes from `begin` to `end` of the file.
    ///
    /// # Errors
    /// Bytes that are no offset index, pages that leave gaps, overlap or hold no row.
    pub fn read(data: &[u8], rows: i64, (begin, end): (i64, i64)) -> Result<Self, Fault> {
        let mut found = Self::default();
        let mut reader = Reader::new(data);
        reader.fields(|reader, number, kind| match number {
            1 => reader.list(kind, STRUCT, |reader| found.page(reader)),
            _ => reader.skip(kind),
        })?;
        let filled = found.offset.iter().zip(&found.length).try_fold(begin, |at, (&offset, &length)| {
            if offset == at && length > 0 { at.checked_add(length) } else { None }
        });
        let ascending = found.first_row.windows(2).all(|pair| pair[0] < pair[1]);
        if filled != Some(end) {
            return Err(reader.fault("pages that are not all of the column"));
        }
        if found.first_row.first() != Some(&0) || !ascending || found.first_row.last().is_some_and(|&row| row >= rows) {
            return Err(reader.fault("pages that are not all of the rows"));
        }
        Ok(found)
    }

    fn page(&mut self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        let (mut offset, mut length, mut first_row) = (-1, -1, -1);
        reader.fields(|reader, number, kind| {
            match number {
                1 => offset = reader.number(kind)?,
                2 => length = reader.number(kind)?,
                3 => first_row = reader.number(kind)?,
                _ => reader.skip(kind)?,
            }
            Ok(())
        })?;
        if offset < 0 || length <= 0 || first_row < 0 {
            return Err(reader.fault("a page without a place"));
        }
        self.offset.push(offset);
        self.length.push(length);
        self.first_row.push(first_row);
        Ok(())
    }
}

/// What a column index says of each page.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Whether it holds nothing but nulls.
    pub null: Vec<bool>,
    /// At most its least value; of no meaning where it holds nothing but nulls.
    pub low: Vec<Vec<u8>>,
    /// At least its greatest value.
    pub high: Vec<Vec<u8>>,
    /// Its nulls, if that is said.
    pub nulls: Option<Vec<i64>>,
}

impl Bounds {
    /// Reads a column index of so many pages.
    ///
    /// # Errors
    /// Bytes that are no column index, or one of another number of pages.
    pub fn read(data: &[u8], pages: usize) -> Result<Self, Fault> {
        let mut found = Self::default();
        let mut reader = Reader::new(data);
        reader.fields(|reader, number, kind| {
            match number {
                1 => found.null = reader.truths(kind)?,
                2 => found.low = texts(reader, kind, pages)?,
                3 => found.high = texts(reader, kind, pages)?,
                5 => found.nulls = Some(reader.numbers(kind, LONG)?),
                _ => reader.skip(kind)?,
            }
            Ok(())
        })?;
        let counts =
            [found.null.len(), found.low.len(), found.high.len(), found.nulls.as_ref().map_or(pages, Vec::len)];
        if counts.iter().any(|&count| count != pages) {
            return Err(reader.fault("bounds of another number of pages"));
        }
        Ok(found)
    }
}

fn texts(reader: &mut Reader<'_>, kind: u8, most: usize) -> Result<Vec<Vec<u8>>, Fault> {
    let mut found = Vec::new();
    reader.list(kind, BINARY, |reader| {
        if found.len() == most {
            return Err(reader.fault("bounds of more pages than there are"));
        }
        found.push(reader.bytes(BINARY)?.to_vec());
        Ok(())
    })?;
    Ok(found)
}
