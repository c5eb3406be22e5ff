//! Local files in the address space: rows are copied out of the page cache without a system call each.
//!
//! Unsafe here is the mapping itself: the file could be changed or cut by someone else while it is mapped. Changed bytes are
//! read as plain bytes, any of which are valid. A cut file ends a process that reads beyond the cut; `check` sees one that
//! was cut before, so that only a cut in the same moment is left. docs/formats.md says so.
#![allow(unsafe_code)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use memmap2::Mmap;

use crate::files::FileError;

/// Files that are mapped when they are first needed, and stay mapped. Their descriptors are closed at once.
pub struct MappedFiles {
    files: Vec<(PathBuf, u64)>,
    maps: Vec<OnceLock<Mmap>>,
}

impl MappedFiles {
    /// Files by path, with the size that each must have.
    #[must_use]
    pub fn new(files: Vec<(PathBuf, u64)>) -> Self {
        let maps = files.iter().map(|_| OnceLock::new()).collect();
        Self { files, maps }
    }

    /// Maps the files of these numbers, and sees that every one is still of its size.
    ///
    /// # Errors
    /// The first file that is missing, cannot be mapped, or has another size.
    pub fn check(&self, numbers: &[i64]) -> Result<(), FileError> {
        let mut used: Vec<usize> = numbers.iter().filter_map(|&number| usize::try_from(number).ok()).collect();
        used.dedup();
        used.sort_unstable();
        used.dedup();
        used.into_iter().filter(|&number| number < self.files.len()).try_for_each(|number| self.check_one(number))
    }

    fn check_one(&self, number: usize) -> Result<(), FileError> {
        let (path, size) = &self.files[number];
        let failed = |error| FileError::new(path, &error);
        if self.maps[number].get().is_some() {
            let now = path.metadata().map_err(failed)?.len();
            return expect_size(path, now, *size);
        }
        let file = File::open(path).map_err(failed)?;
        expect_size(path, file.metadata().map_err(failed)?.len(), *size)?;
        // SAFETY: see the top of this file.
        let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
        expect_size(path, map.len() as u64, *size)?;
        self.maps[number].get_or_init(|| map);
        Ok(())
    }

    /// The bytes of a file that has passed `check`.
    #[must_use]
    pub fn bytes(&self, number: usize) -> Option<&[u8]> {
        self.maps.get(number)?.get().map(|map| &map[..])
    }
}

fn expect_size(path: &Path, now: u64, size: u64) -> Result<(), FileError> {
    if now == size {
        return Ok(());
    }
    let found = format!("{now} bytes now, {size} when it was indexed");
    Err(FileError { path: path.display().to_string(), found, missing: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_cut_is_seen() {
        let path = std::env::temp_dir().join(format!("penstock-mapped-{}", std::process::id()));
        std::fs::write(&path, b"hello").unwrap();
        let files = MappedFiles::new(vec![(path.clone(), 5), (path.with_extension("gone"), 1)]);
        assert!(files.bytes(0).is_none());
        files.check(&[0, 0, -1, 7]).unwrap();
        assert_eq!(files.bytes(0), Some(&b"hello"[..]));
        assert!(files.check(&[0, 1]).unwrap_err().missing);
        std::fs::write(&path, b"hi").unwrap();
        assert!(files.check(&[0]).unwrap_err().found.contains("2 bytes now, 5 when"));
        std::fs::remove_file(&path).unwrap();
    }
}
