//! A file's footer: its row groups, and the places and statistics of the requested columns.

use super::compact::{BINARY, Fault, INT, Reader, STRUCT};
use super::schema::{Element, Leaf, leaves};

/// The encodings of pages whose values are numbers of a dictionary's entries.
pub const OF_DICTIONARY: [i64; 2] = [2, 8];
/// Elements of a schema at most.
const MOST_ELEMENTS: usize = 1_000_000;
const DATA_PAGES: [i64; 2] = [0, 3];

/// A place in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its first byte.
    pub offset: i64,
    /// Its bytes; 0 where there is nothing.
    pub length: i64,
}

/// A column of a row group.
#[derive(Debug, Default)]
pub struct Chunk {
    /// Parquet's number of its type.
    pub kind: i64,
    /// Numbers of the encodings of its pages.
    pub encodings: Vec<i64>,
    /// Parquet's number of how it is packed.
    pub codec: i64,
    /// Values, nulls and empty lists among them.
    pub values: i64,
    /// Bytes of all pages, unpacked.
    pub unpacked: i64,
    /// Bytes of all pages, as they lie in the file.
    pub packed: i64,
    /// Where the first page with values begins.
    pub data: i64,
    /// Where the dictionary begins, if there is one.
    pub dictionary: Option<i64>,
    /// Nulls, if that is said.
    pub nulls: Option<i64>,
    /// The least and the greatest value by the order of the column's type.
    pub bounds: (Option<Vec<u8>>, Option<Vec<u8>>),
    /// The same by comparing bytes as signed numbers, as old files have it.
    pub old_bounds: (Option<Vec<u8>>, Option<Vec<u8>>),
    /// Where its pages are listed.
    pub offset_index: Place,
    /// Where its pages' bounds are listed.
    pub column_index: Place,
    /// How many pages, the first ones, need the dictionary; none where that is not said.
    pub dictionary_pages: Option<i64>,
    /// Whether it lies in this file and can be read without a key.
    pub plain: bool,
    path: Vec<Vec<u8>>,
}

/// A row group: its rows, and the chunks of the requested leaves.
#[derive(Debug, Default)]
pub struct Group {
    /// Its rows.
    pub rows: i64,
    /// One chunk a leaf.
    pub chunks: Vec<Chunk>,
}

/// The requested part of a footer.
#[derive(Debug, Default)]
pub struct Footer {
    /// The row groups.
    pub groups: Vec<Group>,
    /// The requested leaves.
    pub leaves: Vec<Leaf>,
    /// Whether bounds of a leaf are in the order of its type.
    pub ordered: Vec<bool>,
    /// The elements of the schema.
    pub schema: Vec<Element>,
}

impl Footer {
    /// Reads a footer: the leaves below columns or fields of the given names.
    ///
    /// # Errors
    /// Bytes that are no footer, or one that contradicts itself.
    pub fn read(data: &[u8], wanted: &[Vec<String>]) -> Result<Self, Fault> {
        let (mut found, mut columns, mut orders) = (Self::default(), 0, Vec::new());
        let mut reader = Reader::new(data);
        reader.fields(|reader, number, kind| {
            match number {
                2 if found.groups.is_empty() => {
                    let schema = &mut found.schema;
                    reader.list(kind, STRUCT, |reader| {
                        if schema.len() == MOST_ELEMENTS {
                            return Err(reader.fault("too many columns"));
                        }
                        schema.push(Element::read(reader)?);
                        Ok(())
                    })?;
                    (found.leaves, columns) =
                        leaves(&found.schema, wanted).ok_or_else(|| reader.fault("columns that are no tree"))?;
                }
                4 => {
                    let (groups, leaves) = (&mut found.groups, &found.leaves);
                    reader.list(kind, STRUCT, |reader| {
                        groups.push(Group::read(reader, leaves, columns)?);
                        Ok(())
                    })?;
                }
                2 => return Err(reader.fault("columns behind row groups")),
                7 => reader.list(kind, STRUCT, |reader| {
                    let mut by_type = false;
                    reader.fields(|reader, number, kind| {
                        by_type |= number == 1;
                        reader.skip(kind)
                    })?;
                    orders.push(by_type);
                    Ok(())
                })?,
                _ => reader.skip(kind)?,
            }
            Ok(())
        })?;
        if found.schema.is_empty() {
            return Err(reader.fault("no columns"));
        }
        found.ordered = found.leaves.iter().map(|leaf| orders.len() == columns && orders[leaf.column]).collect();
        Ok(found)
    }
}

impl Group {
    fn read(reader: &mut Reader<'_>, leaves: &[Leaf], columns: usize) -> Result<Self, Fault> {
        let mut found = Self { rows: -1, ..Self::default() };
        reader.fields(|reader, number, kind| {
            match number {
                1 => {
                    let mut column = 0;
                    reader.list(kind, STRUCT, |reader| {
                        match leaves.get(found.chunks.len()) {
                            Some(leaf) if leaf.column == column => found.chunks.push(Chunk::read(reader, leaf)?),
                            _ => reader.skip(STRUCT)?,
                        }
                        column += 1;
                        Ok(())
                    })?;
                    if column != columns {
                        return Err(reader.fault("a row group of other columns than the file"));
                    }
                }
                3 => found.rows = reader.number(kind)?,
                _ => reader.skip(kind)?,
            }
            Ok(())
        })?;
        if found.rows < 0 || found.chunks.len() != leaves.len() {
            return Err(reader.fault("a row group without rows or columns"));
        }
        Ok(found)
    }
}

impl Chunk {
    /// Where its pages with values begin and end, if they are listed and can be read without a key.
    #[must_use]
    pub fn pages(&self) -> Option<(i64, i64)> {
        let begin = self.dictionary.unwrap_or(self.data);
        let end = begin.checked_add(self.packed)?;
        let listed = self.plain && self.offset_index.offset > 0 && self.offset_index.length > 0;
        (listed && begin > 0 && begin <= self.data && self.data < end).then_some((self.data, end))
    }

    /// The least and the greatest value, and whether they are so by the order of the type; `by_type` says whether the file has one.
    #[must_use]
    pub fn least_and_greatest(&self, by_type: bool) -> (Option<&[u8]>, Option<&[u8]>, bool) {
        let (bounds, ordered) = match &self.bounds {
            (Some(_), Some(_)) if by_type => (&self.bounds, true),
            _ => (&self.old_bounds, false),
        };
        (bounds.0.as_deref(), bounds.1.as_deref(), ordered)
    }

    fn read(reader: &mut Reader<'_>, leaf: &Leaf) -> Result<Self, Fault> {
        let mut found = Self { plain: true, kind: -1, ..Self::default() };
        reader.fields(|reader, number, kind| {
            match number {
                1 | 8 | 9 => {
                    found.plain = false;
                    reader.skip(kind)?;
                }
                3 if kind == STRUCT => found.read_data(reader)?,
                4 => found.offset_index.offset = reader.number(kind)?,
                5 => found.offset_index.length = reader.number(kind)?,
                6 => found.column_index.offset = reader.number(kind)?,
                7 => found.column_index.length = reader.number(kind)?,
                _ => reader.skip(kind)?,
            }
            Ok(())
        })?;
        let path = leaf.path.iter().map(String::as_bytes);
        if found.plain && (found.kind != leaf.kind || !path.eq(found.path.iter().map(Vec::as_slice))) {
            return Err(reader.fault("a column of another name or type than in the schema"));
        }
        Ok(found)
    }

    fn read_data(&mut self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        reader.fields(|reader, number, kind| {
            match number {
                1 => self.kind = reader.number(kind)?,
                2 => self.encodings = reader.numbers(kind, INT)?,
                3 => reader.list(kind, BINARY, |reader| {
                    self.path.push(reader.bytes(BINARY)?.to_vec());
                    Ok(())
                })?,
                4 => self.codec = reader.number(kind)?,
                5 => self.values = reader.number(kind)?,
                6 => self.unpacked = reader.number(kind)?,
                7 => self.packed = reader.number(kind)?,
                9 => self.data = reader.number(kind)?,
                11 => self.dictionary = Some(reader.number(kind)?).filter(|&offset| offset > 0),
                12 if kind == STRUCT => self.read_statistics(reader)?,
                13 => self.dictionary_pages = read_encodings(reader, kind)?,
                _ => reader.skip(kind)?,
            }
            Ok(())
        })
    }

    fn read_statistics(&mut self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        reader.fields(|reader, number, kind| {
            let bytes = |reader: &mut Reader<'_>| Ok(Some(reader.bytes(kind)?.to_vec()));
            match number {
                1 => self.old_bounds.1 = bytes(reader)?,
                2 => self.old_bounds.0 = bytes(reader)?,
                3 => self.nulls = Some(reader.number(kind)?),
                5 => self.bounds.1 = bytes(reader)?,
                6 => self.bounds.0 = bytes(reader)?,
                _ => reader.skip(kind)?,
            }
            Ok(())
        })
    }
}

/// How many pages need the dictionary, by the numbers of pages of each encoding.
fn read_encodings(reader: &mut Reader<'_>, kind: u8) -> Result<Option<i64>, Fault> {
    let mut of_dictionary = 0_i64;
    reader.list(kind, STRUCT, |reader| {
        let (mut page, mut encoding, mut count) = (-1, -1, 0);
        reader.fields(|reader, number, kind| {
            match number {
                1 => page = reader.number(kind)?,
                2 => encoding = reader.number(kind)?,
                3 => count = reader.number(kind)?,
                _ => reader.skip(kind)?,
            }
            Ok(())
        })?;
        if DATA_PAGES.contains(&page) && OF_DICTIONARY.contains(&encoding) {
            of_dictionary = of_dictionary.saturating_add(count);
        }
        Ok(())
    })?;
    Ok(Some(of_dictionary))
}
