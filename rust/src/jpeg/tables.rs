//! Huffman tables reused from image to image: most files of a dataset share theirs.

use super::frame::{Scan, Tables};
use super::huffman::HuffmanTable;

/// Ready tables by their number in the file.
#[derive(Clone, Default)]
pub(super) struct TableCache {
    dc: [Option<HuffmanTable>; 4],
    ac: [Option<HuffmanTable>; 4],
}

impl TableCache {
    /// Makes the tables that a scan needs, where they differ from those of the image before.
    pub fn update(&mut self, scan: &Scan, tables: &Tables) {
        for &(_, dc, ac) in &scan.components[..scan.len] {
            let pairs = [
                (&mut self.dc[usize::from(dc)], &tables.dc[usize::from(dc)], false),
                (&mut self.ac[usize::from(ac)], &tables.ac[usize::from(ac)], true),
            ];
            for (kept, spec, is_ac) in pairs {
                match spec {
                    None => *kept = None,
                    Some(spec) if kept.as_ref().is_some_and(|table| table.is_of(spec)) => {}
                    Some(spec) => *kept = Some(HuffmanTable::new(spec, is_ac)),
                }
            }
        }
    }

    /// The scan's DC tables, one per scan component; `None` if one is missing.
    pub fn dc(&self, scan: &Scan) -> Option<[&HuffmanTable; 4]> {
        let first = self.dc[usize::from(scan.components[0].1)].as_ref()?;
        let mut all = [first; 4];
        for (table, part) in all.iter_mut().zip(&scan.components[..scan.len]) {
            *table = self.dc[usize::from(part.1)].as_ref()?;
        }
        Some(all)
    }

    /// The scan's AC tables, one per scan component; `None` if one is missing.
    pub fn ac(&self, scan: &Scan) -> Option<[&HuffmanTable; 4]> {
        let first = self.ac[usize::from(scan.components[0].2)].as_ref()?;
        let mut all = [first; 4];
        for (table, part) in all.iter_mut().zip(&scan.components[..scan.len]) {
            *table = self.ac[usize::from(part.2)].as_ref()?;
        }
        Some(all)
    }
}
