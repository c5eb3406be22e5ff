//! Where the records of an LMDB file (data.mdb) lie: its B+tree walked page by page, in the order of its keys.
//!
//! The layout is that of `MDB_page`, `MDB_node`, `MDB_meta` and `MDB_db` in OpenLDAP's libraries/liblmdb/mdb.c, data version 1, 64 bits, little
//! endian. The library itself trusts its files and would crash on a damaged one; here every number is checked before it is
//! followed: a page must know its own number, is visited once, and keys must ascend.

use super::{Progress, Trouble};

const MAGIC: u32 = 0xBEEF_C0DE;
const PAGE_HEADER: usize = 16;
const NODE_HEADER: usize = 8;
const META_BYTES: usize = PAGE_HEADER + 136;
const SMALLEST_PAGE: u64 = 256;
const LARGEST_PAGE: u64 = 1 << 16;
/// Depth of a tree at most, as in the library.
const DEEPEST: usize = 32;
/// No page: an empty tree.
const NO_PAGE: u64 = u64::MAX;

const BRANCH: u16 = 1;
const LEAF: u16 = 2;
const OVERFLOW: u16 = 4;
const KINDS: u16 = 0x7F & !0x10;
/// The value lies on pages of its own; is a tree; has several values.
const BIG: u16 = 1;
const TREE: u16 = 2;
const SEVERAL: u16 = 4;
const REVERSE_KEY: u16 = 2;
const SEVERAL_VALUES: u16 = 4;
const INTEGER_KEY: u16 = 8;

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

type Trees = Vec<(Vec<u8>, Tree)>;

/// A walk through one tree.
struct Walk<'a, R> {
    read: &'a R,
    size: u64,
    page_bytes: usize,
    record_bytes: u64,
    /// Whether values may be trees: only in the unnamed database.
    named: bool,
    seen: Vec<u64>,
    found: Index,
    trees: Trees,
}

impl<'a, R: ReadAt> Walk<'a, R> {
    fn new(read: &'a R, size: u64, page_bytes: usize, record_bytes: u64, named: bool) -> Self {
        Self {
            read,
            size,
            page_bytes,
            record_bytes,
            named,
            seen: Vec::new(),
            found: Index::default(),
            trees: Vec::new(),
        }
    }

    fn run(mut self, tree: Tree, progress: &Progress) -> Result<(Index, Trees), Trouble> {
        if tree.flags & (SEVERAL_VALUES | INTEGER_KEY) != 0 {
            let found = "keys with several values (DUPSORT) or of integers (INTEGERKEY), which are not read";
            return Err(Trouble::data("", found, "write it as a plain database"));
        }
        // One bit a page; a file of a terabyte has 32 MiB of them.
        let pages = self.size / self.page_bytes as u64 + 1;
        self.seen =
            vec![0; usize::try_from(pages.div_ceil(64)).map_err(|_| damaged(0, "a file larger than the memory"))?];
        if tree.root != NO_PAGE {
            self.page(tree.root, 1, progress)?;
        }
        let records = (self.found.offset.len() + self.trees.len()) as u64;
        if records != tree.records {
            return Err(damaged(0, format!("{records} records, {} when the last transaction ended", tree.records)));
        }
        self.check_order(tree)?;
        Ok((self.found, self.trees))
    }

    fn check_order(&self, tree: Tree) -> Result<(), Trouble> {
        let mut first = 0;
        let keys = self.found.key_ends.iter().map(|&end| {
            let start = std::mem::replace(&mut first, usize::try_from(end).unwrap_or(0));
            &self.found.keys[start..first]
        });
        let ascends = |a: &&[u8], b: &&[u8]| {
            if tree.flags & REVERSE_KEY == 0 { a < b } else { a.iter().rev().lt(b.iter().rev()) }
        };
        if keys.is_sorted_by(ascends) { Ok(()) } else { Err(damaged(0, "keys that do not ascend")) }
    }

    /// Goes through a page and all below it.
    fn page(&mut self, number: u64, depth: usize, progress: &Progress) -> Result<(), Trouble> {
        if depth > DEEPEST {
            return Err(damaged(number, format!("a tree deeper than {DEEPEST} pages")));
        }
        progress.add(self.page_bytes as u64)?;
        let page = self.read_page(number)?;
        let (flags, lower) = (u16_at(&page, 10).unwrap_or(0) & KINDS, usize::from(u16_at(&page, 12).unwrap_or(0)));
        let upper = usize::from(u16_at(&page, 14).unwrap_or(0));
        if !(flags == BRANCH || flags == LEAF) || lower < PAGE_HEADER || lower > self.page_bytes || lower % 2 != 0 {
            return Err(damaged(number, format!("no page of a tree: flags {flags:#x}, {lower} bytes of header")));
        }
        if upper < lower && self.page_bytes < 1 << 16 {
            return Err(damaged(number, "its values overlap its header"));
        }
        for place in (PAGE_HEADER..lower).step_by(2) {
            let at = usize::from(u16_at(&page, place).unwrap_or(0));
            let node = page.get(at..).filter(|node| at >= lower && node.len() >= NODE_HEADER);
            let node = node.ok_or_else(|| damaged(number, format!("a node at byte {at} of it")))?;
            if flags == BRANCH {
                self.page(branch(node), depth + 1, progress)?;
            } else {
                self.leaf(number, at, node)?;
            }
        }
        Ok(())
    }

    /// A page that was not seen before, and knows its number.
    fn read_page(&mut self, number: u64) -> Result<Vec<u8>, Trouble> {
        let at = self.place(number, self.page_bytes as u64)?;
        let (word, bit) = (usize::try_from(number / 64).unwrap_or(usize::MAX), 1 << (number % 64));
        if self.seen[word] & bit != 0 {
            return Err(damaged(number, "the tree leads to it twice"));
        }
        self.seen[word] |= bit;
        let mut page = vec![0; self.page_bytes];
        (self.read)(at, &mut page)?;
        match u64_at(&page, 0) {
            Some(known) if known == number => Ok(page),
            other => Err(damaged(number, format!("it says that it is page {}", other.unwrap_or(0)))),
        }
    }

    /// The byte where a page begins, of which `bytes` must be in the file.
    fn place(&self, number: u64, bytes: u64) -> Result<u64, Trouble> {
        let at = number.checked_mul(self.page_bytes as u64);
        at.filter(|at| at.checked_add(bytes).is_some_and(|end| end <= self.size))
            .ok_or_else(|| damaged(number, format!("not in the file of {} bytes; it is cut or damaged", self.size)))
    }

    /// A record, or a named database.
    fn leaf(&mut self, number: u64, at: usize, node: &[u8]) -> Result<(), Trouble> {
        let [low, high, flags, key_bytes] = [0, 2, 4, 6].map(|place| u16_at(node, place).unwrap_or(0));
        let length = u64::from(low) | u64::from(high) << 16;
        let begin = NODE_HEADER + usize::from(key_bytes);
        let stored = if flags & BIG != 0 { 8 } else { usize::try_from(length).unwrap_or(usize::MAX) };
        let parts = node.get(NODE_HEADER..begin).zip(begin.checked_add(stored).and_then(|end| node.get(begin..end)));
        let (key, value) =
            parts.ok_or_else(|| damaged(number, format!("a record of {length} bytes at byte {at} of it")))?;
        if flags & TREE != 0 && self.named {
            let tree = Tree::parse(value).ok_or_else(|| damaged(number, "a cut named database"))?;
            self.trees.push((key.to_vec(), tree));
            return Ok(());
        }
        if flags & !BIG != 0 {
            let what = if flags & SEVERAL != 0 { "a key with several values" } else { "an unknown record" };
            return Err(damaged(number, format!("{what} (flags {flags:#x})")));
        }
        if length > self.record_bytes {
            return Err(damaged(
                number,
                format!("a value of {length} bytes, more than Limits(record_bytes={})", self.record_bytes),
            ));
        }
        let offset = if flags & BIG != 0 {
            self.overflow(u64_at(value, 0).unwrap_or(NO_PAGE), length)?
        } else {
            self.place(number, self.page_bytes as u64)? + (at + begin) as u64
        };
        self.found.keys.extend_from_slice(key);
        self.found.key_ends.push(self.found.keys.len() as i64);
        self.found.offset.push(offset.cast_signed());
        self.found.length.push(length.cast_signed());
        Ok(())
    }

    /// The byte where a value of `length` bytes on pages of its own begins.
    fn overflow(&self, number: u64, length: u64) -> Result<u64, Trouble> {
        let at = self.place(number, PAGE_HEADER as u64 + length)?;
        let mut header = [0; PAGE_HEADER];
        (self.read)(at, &mut header)?;
        let (known, flags, pages) =
            (u64_at(&header, 0), u16_at(&header, 10), u64::from(u32_at(&header, 12).unwrap_or(0)));
        let whole = PAGE_HEADER as u64 + length <= pages * self.page_bytes as u64;
        if known == Some(number) && flags.is_some_and(|flags| flags & KINDS == OVERFLOW) && whole {
            return Ok(at + PAGE_HEADER as u64);
        }
        Err(damaged(number, format!("no page of a long value of {length} bytes")))
    }
}

/// The page that a branch's node leads to.
fn branch(node: &[u8]) -> u64 {
    let [low, high, top] = [0, 2, 4].map(|place| u64::from(u16_at(node, place).unwrap_or(0)));
    low | high << 16 | top << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(data: &[u8], database: Option<&[u8]>) -> Result<Index, Trouble> {
        let read = |at: u64, out: &mut [u8]| {
            out.copy_from_slice(&data[at as usize..at as usize + out.len()]);
            Ok(())
        };
        index(read, data.len() as u64, database, 1 << 20, &Progress::default())
    }

    fn golden(name: &str) -> Vec<u8> {
        std::fs::read(format!("../tests/golden/lmdb/{name}/data.mdb")).unwrap()
    }

    #[test]
    fn records_come_in_the_order_of_their_keys() {
        let data = golden("plain");
        let found = of(&data, None).unwrap();
        assert_eq!(found.offset.len(), 40);
        assert!(found.keys.starts_with(b"0000"));
        for (row, (&offset, &length)) in found.offset.iter().zip(&found.length).enumerate() {
            let value = &data[offset as usize..][..length as usize];
            assert_eq!(value, vec![row as u8; row * row * 3]);
        }
    }

    #[test]
    fn a_named_database_is_chosen() {
        let data = golden("named");
        let text = of(&data, None).unwrap_err().to_string();
        assert!(text.contains("it has the databases images, labels; choose one with database=…"), "{text}");
        assert_eq!(of(&data, Some(b"labels")).unwrap().offset.len(), 5);
        assert!(of(&data, Some(b"label")).unwrap_err().to_string().contains("no database \"label\""));
        assert_eq!(of(&golden("empty"), None).unwrap(), Index::default());
        assert!(of(&golden("several"), None).unwrap_err().to_string().contains("DUPSORT"));
    }

    #[test]
    fn damage_is_an_error_or_leaves_places_inside_the_file() {
        let whole = golden("plain");
        for size in (0..whole.len()).step_by(97) {
            if let Ok(found) = of(&whole[..size], None) {
                assert_eq!(found.offset.len(), 40);
            }
        }
        for place in 0..whole.len().min(5 * 4096) {
            let mut data = whole.clone();
            data[place] ^= 1 << (place % 8);
            if let Ok(found) = of(&data, None) {
                let inside =
                    found.offset.iter().zip(&found.length).all(|(at, length)| at + length <= data.len() as i64);
                assert!(inside, "byte {place}");
            }
        }
    }
}
