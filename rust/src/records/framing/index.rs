//! What indexing has in common, whatever the files' records are.

use std::fs::File;
use std::path::Path;

use super::{Progress, for_each_file};
use crate::core::errors::{FileTrouble, Trouble};
use crate::io::stat::open_regular;

/// Bytes between two reports.
const REPORT_BYTES: u64 = 1 << 20;

/// The records of many files; in each they lie without gaps.
#[derive(Debug, Default)]
pub struct Index {
    /// Records of each file.
    pub counts: Vec<i64>,
    /// The length of each record with all that frames it, file after file.
    pub lengths: Vec<i64>,
}

/// Indexes files in parallel: `lengths` gives those of the records of a file, by its number.
pub fn index_each(
    files: usize,
    threads: usize,
    lengths: impl Fn(usize) -> Result<Vec<i64>, Trouble> + Sync,
) -> Result<Index, FileTrouble> {
    let parts = for_each_file(files, threads, lengths)?;
    let mut index = Index { counts: parts.iter().map(|part| part.len() as i64).collect(), lengths: Vec::new() };
    index.lengths.reserve_exact(parts.iter().map(Vec::len).sum());
    for part in parts {
        index.lengths.extend_from_slice(&part);
    }
    Ok(index)
}

/// A file that still has the size that it had when it was listed.
pub fn open_listed(path: &Path, size: u64) -> Result<File, Trouble> {
    let file = open_regular(path)?;
    let found = file.metadata()?.len();
    if found == size {
        return Ok(file);
    }
    let found = format!("{found} bytes, it had {size} when it was listed");
    Err(Trouble::data("", found, "the file changed meanwhile: read it again once it is complete"))
}

/// The lengths of a file's records, as they are found.
pub struct Lengths<'a> {
    found: Vec<i64>,
    progress: &'a Progress,
    untold: u64,
}

impl<'a> Lengths<'a> {
    pub fn new(progress: &'a Progress) -> Self {
        Self { found: Vec::new(), progress, untold: 0 }
    }

    #[inline]
    pub fn push(&mut self, length: u64) -> Result<(), Trouble> {
        self.found.push(length as i64);
        self.untold += length;
        if self.untold < REPORT_BYTES { Ok(()) } else { self.progress.add(std::mem::take(&mut self.untold)) }
    }

    pub fn finish(self) -> Result<Vec<i64>, Trouble> {
        self.progress.add(self.untold)?;
        Ok(self.found)
    }
}
