//! One tree of an LMDB file, walked page by page.

use super::{Index, PAGE_HEADER, ReadAt, Tree, damaged, u16_at, u32_at, u64_at};
use crate::core::errors::Trouble;
use crate::records::framing::Progress;

const NODE_HEADER: usize = 8;
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

/// Named databases.
pub(super) type Trees = Vec<(Vec<u8>, Tree)>;

/// A walk through one tree.
pub(super) struct Walk<'a, R> {
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
    pub(super) fn new(read: &'a R, size: u64, page_bytes: usize, record_bytes: u64, named: bool) -> Self {
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

    /// The records of the tree, and the databases that it names.
    pub(super) fn run(mut self, tree: Tree, progress: &Progress) -> Result<(Index, Trees), Trouble> {
        if tree.flags & (SEVERAL_VALUES | INTEGER_KEY) != 0 {
            let found = "keys with several values (DUPSORT) or of integers (INTEGERKEY), which are not read";
            return Err(Trouble::data("", found, "write it as a plain database"));
        }
        // One bit a page; a file of a terabyte has 32 MiB of them.
        let pages = self.size / self.page_bytes as u64 + 1;
        let words = usize::try_from(pages.div_ceil(64)).ok();
        // Tried, not made: pages of memory that nobody writes are none, where the file is sparse.
        let words = words.filter(|&words| Vec::<u64>::new().try_reserve_exact(words).is_ok());
        self.seen =
            vec![0; words.ok_or_else(|| damaged(0, format!("a file of {pages} pages, more than memory can note")))?];
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
