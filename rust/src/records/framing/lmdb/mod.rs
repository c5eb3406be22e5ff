//! Where the records of an LMDB file (data.mdb) lie: its B+tree walked page by page, in the order of its keys.
//!
//! The layout is that of `MDB_page`, `MDB_node`, `MDB_meta` and `MDB_db` in OpenLDAP's libraries/liblmdb/mdb.c, data version 1, 64 bits, little
//! endian. The library itself trusts its files and would crash on a damaged one; here every number is checked before it is
//! followed: a page must know its own number, is visited once, and keys must ascend.

use crate::core::errors::Trouble;

mod pages;
#[cfg(test)]
mod tests;

use self::pages::Walk;
use super::Progress;

const MAGIC: u32 = 0xBEEF_C0DE;
const PAGE_HEADER: usize = 16;
const META_BYTES: usize = PAGE_HEADER + 136;
const SMALLEST_PAGE: u64 = 256;
const LARGEST_PAGE: u64 = 1 << 16;

/// Reads the bytes at a place of the file into a buffer, all of them.
pub trait ReadAt: Fn(u64, &mut [u8]) -> Result<(), Trouble> {}
impl<F: Fn(u64, &mut [u8]) -> Result<(), Trouble>> ReadAt for F {}

/// Records in the order of their keys: key i is `keys[key_ends[i - 1]..key_ends[i]]` (from 0 for the first).
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// All keys, one after the other.
    pub keys: Vec<u8>,
    /// Where each key ends.
    pub key_ends: Vec<i64>,
    /// The byte of the file where each value begins.
    pub offset: Vec<i64>,
    /// Bytes of each value.
    pub length: Vec<i64>,
}

/// A tree (`MDB_db`): flags, number of records, first page.
#[derive(Clone, Copy, Debug)]
struct Tree {
    flags: u16,
    records: u64,
    root: u64,
}

impl Tree {
    fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self { flags: u16_at(bytes, 4)?, records: u64_at(bytes, 32)?, root: u64_at(bytes, 40)? })
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|value| u16::from_le_bytes(*value))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|value| u32::from_le_bytes(*value))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|value| u64::from_le_bytes(*value))
}

fn damaged(page: u64, found: impl Into<String>) -> Trouble {
    Trouble::data(format!("page {page}"), found, "copy the database again while nothing writes to it (mdb_copy)")
}

/// The records of a database: the unnamed one, the only named one, or the one of the given name.
///
/// # Errors
/// A damaged file, a database that is not there or has several values a key, a value longer than `record_bytes`.
pub fn index(
    read: impl ReadAt,
    size: u64,
    database: Option<&[u8]>,
    record_bytes: u64,
    progress: &Progress,
) -> Result<Index, Trouble> {
    let (page_bytes, main) = newest_meta(&read, size)?;
    let walk = |tree, named| Walk::new(&read, size, page_bytes, record_bytes, named).run(tree, progress);
    let (found, trees) = walk(main, true)?;
    let names = || trees.iter().map(|(name, _)| String::from_utf8_lossy(name)).collect::<Vec<_>>().join(", ");
    let chosen = match database {
        Some(name) => trees.iter().find(|(known, _)| known == name).ok_or_else(|| {
            let found = format!("no database {:?}; its named databases: {}", String::from_utf8_lossy(name), names());
            Trouble::data("", found, "choose one of them, or none for the unnamed one")
        })?,
        None if trees.is_empty() => return Ok(found),
        None if trees.len() == 1 && found.offset.is_empty() => &trees[0],
        None => {
            return Err(Trouble::data("", format!("it has the databases {}", names()), "choose one with database=…"));
        }
    };
    Ok(walk(chosen.1, false)?.0)
}

/// Bytes of a page, and the main tree as the last transaction left it.
fn newest_meta(read: &impl ReadAt, size: u64) -> Result<(usize, Tree), Trouble> {
    let (page_bytes, mut newest) = meta(read, size, 0, None)?;
    let second = meta(read, size, 1, Some(page_bytes))?.1;
    if second.0 > newest.0 {
        newest = second;
    }
    let page = usize::try_from(page_bytes).map_err(|_| damaged(0, "a page of more than the memory"))?;
    Ok((page, newest.1))
}

/// One of the two meta pages: bytes of a page, number of the transaction, the main tree.
fn meta(read: &impl ReadAt, size: u64, number: u64, page_bytes: Option<u64>) -> Result<(u64, (u64, Tree)), Trouble> {
    let mut page = [0; META_BYTES];
    let at = number * page_bytes.unwrap_or(0);
    if size < at + META_BYTES as u64 {
        return Err(damaged(
            number,
            format!("the file ends at byte {size}, before its second page; it is cut, or no LMDB file"),
        ));
    }
    read(at, &mut page)?;
    let body = &page[PAGE_HEADER..];
    let (magic, version) = (u32_at(body, 0).unwrap_or(0), u32_at(body, 4).unwrap_or(0));
    if magic != MAGIC || version != 1 {
        return Err(damaged(
            number,
            format!(
                "magic {magic:#x} and version {version} where {MAGIC:#x} and 1 belong; it is no LMDB file that can be read"
            ),
        ));
    }
    let stated = u64::from(u32_at(body, 24).unwrap_or(0));
    if !stated.is_power_of_two()
        || !(SMALLEST_PAGE..=LARGEST_PAGE).contains(&stated)
        || page_bytes.is_some_and(|bytes| bytes != stated)
    {
        return Err(damaged(number, format!("pages of {stated} bytes")));
    }
    let tree = Tree::parse(&body[72..]).ok_or_else(|| damaged(number, "cut"))?;
    Ok((stated, (u64_at(body, 128).unwrap_or(0), tree)))
}
