//! The footer of a small file that holds some pages of some columns of another file.

use super::compact::{BINARY, Fault, INT, LONG, STRUCT, Writer};
use super::footer::Footer;

const ARROW_SCHEMA: &[u8] = b"ARROW:schema";

/// A column of the small file: which leaf of the large one, and where its pages lie.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The number of the leaf among the requested ones.
    pub leaf: usize,
    /// Values of its pages.
    pub values: i64,
    /// Where the dictionary begins, if it has one.
    pub dictionary: Option<i64>,
    /// Where the first page with values begins.
    pub data: i64,
    /// Bytes of all of its pages, the dictionary among them.
    pub packed: i64,
    /// The same, unpacked.
    pub unpacked: i64,
}

impl Footer {
    /// The footer of a file with one row group of these rows: `data` is the footer that was read, `group` the row group that the pages are from, `arrow`
    /// what the schema is to become in Arrow (a message in base64). The parts' leaves must ascend.
    ///
    /// # Errors
    /// Leaves that are not there, or not in order.
    pub fn of_part(
        &self,
        data: &[u8],
        group: usize,
        rows: i64,
        parts: &[Part],
        arrow: &[u8],
    ) -> Result<Vec<u8>, Fault> {
        let misuse = Fault { at: 0, found: "parts that are not of this file" };
        let chunks = self.groups.get(group).map(|group| &group.chunks);
        let (Some(chunks), true) = (chunks, parts.is_sorted_by(|a, b| a.leaf < b.leaf)) else { return Err(misuse) };
        if parts.is_empty() || parts.iter().any(|part| part.leaf >= self.leaves.len()) {
            return Err(misuse);
        }
        let mut to = Writer::default();
        to.begin();
        to.number(1, INT, 2);
        self.write_schema(&mut to, data, parts)?;
        to.number(3, LONG, rows);
        to.list(4, STRUCT, 1);
        to.begin();
        to.list(1, STRUCT, parts.len());
        for part in parts {
            let (leaf, chunk) = (&self.leaves[part.leaf], &chunks[part.leaf]);
            to.begin();
            to.number(2, LONG, 0);
            to.field(3, STRUCT);
            to.begin();
            to.number(1, INT, leaf.kind);
            to.list(2, INT, chunk.encodings.len());
            chunk.encodings.iter().for_each(|&encoding| to.zigzag(encoding));
            to.list(3, BINARY, leaf.path.len());
            leaf.path.iter().for_each(|name| to.text(name.as_bytes()));
            to.number(4, INT, chunk.codec);
            to.number(5, LONG, part.values);
            to.number(6, LONG, part.unpacked);
            to.number(7, LONG, part.packed);
            to.number(9, LONG, part.data);
            if let Some(dictionary) = part.dictionary {
                to.number(11, LONG, dictionary);
            }
            to.end();
            to.end();
        }
        to.number(2, LONG, parts.iter().fold(0, |sum, part| part.unpacked.saturating_add(sum)));
        to.number(3, LONG, rows);
        to.end();
        to.list(5, STRUCT, 1);
        to.begin();
        to.bytes(1, ARROW_SCHEMA);
        to.bytes(2, arrow);
        to.end();
        to.end();
        Ok(to.finish())
    }

    /// The elements that lead to the parts' leaves, each with as many children as are left of it.
    fn write_schema(&self, to: &mut Writer, data: &[u8], parts: &[Part]) -> Result<(), Fault> {
        let outside = Fault { at: 0, found: "a schema of another footer" };
        let leaves = || parts.iter().map(|part| &self.leaves[part.leaf].elements);
        let mut children = vec![0_i64; self.schema.len()];
        let mut kept: Vec<_> = leaves().flatten().copied().collect();
        kept.sort_unstable();
        kept.dedup();
        let mut parents: Vec<_> = leaves()
            .flat_map(|path| path.iter().zip(std::iter::once(&0).chain(path)).map(|(&child, &parent)| (child, parent)))
            .collect();
        parents.sort_unstable();
        parents.dedup();
        parents.iter().for_each(|&(_, parent)| children[parent] += 1);
        to.list(2, STRUCT, kept.len() + 1);
        for number in std::iter::once(0).chain(kept) {
            let Some(element) = self.schema.get(number) else { return Err(outside) };
            let (begin, end) = element.span;
            let (from, until) = element.children_span.unwrap_or((end, end));
            let (Some(before), Some(behind)) = (data.get(begin..from), data.get(until..end)) else {
                return Err(outside);
            };
            to.raw(before);
            if element.children_span.is_some() {
                to.zigzag(children[number]);
            }
            to.raw(behind);
        }
        Ok(())
    }
}
