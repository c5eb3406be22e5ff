//! What stands in front of every page.

use super::compact::{Fault, Reader, STRUCT};
use super::footer::OF_DICTIONARY;

const DATA: i64 = 0;
const DICTIONARY: i64 = 2;
const DATA_V2: i64 = 3;

/// A page: what its header says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Whether it is a dictionary.
    pub is_dictionary: bool,
    /// Whether its values are numbers of a dictionary's entries.
    pub needs_dictionary: bool,
    /// Values, nulls and empty lists among them.
    pub values: i64,
    /// Rows, where that is said.
    pub rows: Option<i64>,
    /// Bytes with its header, unpacked.
    pub unpacked: i64,
}

impl Page {
    /// Reads the header of a page that takes all of the bytes.
    ///
    /// # Errors
    /// Bytes that are no page of values and no dictionary, or a page of another length.
    pub fn read(data: &[u8]) -> Result<Self, Fault> {
        let (mut kind_of_page, mut packed, mut unpacked, mut encoding) = (-1, -1, -1, -1);
        let mut found = Self { values: -1, ..Self::default() };
        let mut reader = Reader::new(data);
        reader.fields(|reader, number, kind| {
            match number {
                1 => kind_of_page = reader.number(kind)?,
                2 => unpacked = reader.number(kind)?,
                3 => packed = reader.number(kind)?,
                5 | 7 | 8 if kind == STRUCT => {
                    let (encoding_at, rows_at) = if number == 8 { (4, 3) } else { (2, i64::MAX) };
                    reader.fields(|reader, number, kind| {
                        if number == 1 {
                            found.values = reader.number(kind)?;
                        } else if number == encoding_at {
                            encoding = reader.number(kind)?;
                        } else if number == rows_at {
                            found.rows = Some(reader.number(kind)?);
                        } else {
                            reader.skip(kind)?;
                        }
                        Ok(())
                    })?;
                }
                _ => reader.skip(kind)?,
            }
            Ok(())
        })?;
        let header = reader.at() as i64;
        if !(0..=i64::from(i32::MAX)).contains(&packed) || header + packed != data.len() as i64 {
            return Err(reader.fault("a page of another length than the page index says"));
        }
        if !(0..=i64::from(i32::MAX)).contains(&found.values) || ![DATA, DATA_V2, DICTIONARY].contains(&kind_of_page) {
            return Err(reader.fault("no page of values"));
        }
        found.is_dictionary = kind_of_page == DICTIONARY;
        found.needs_dictionary = !found.is_dictionary && OF_DICTIONARY.contains(&encoding);
        found.unpacked = header + unpacked.clamp(0, i64::from(i32::MAX));
        Ok(found)
    }
}
