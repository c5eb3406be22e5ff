//! Local files in the address space: rows are copied out of the page cache without a system call each.
//!
//! Unsafe here is the mapping itself: the file could be changed or cut by someone else while it is mapped. Changed bytes are
//! read as plain bytes, any of which are valid, and `check` sees the change some milliseconds later at most. Bytes that were cut away are read as zeros
//! (`sigbus`), which `check_whole` sees after the copy.
#![allow(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use memmap2::Mmap;

use crate::core::errors::FileError;
use crate::io::sigbus::Watched;
use crate::io::stat::Listed;

/// A file is looked at again after so long: of a hundred files, looking takes as long as copying a row of each.
const LOOK_AGAIN_NS: u64 = 5_000_000;

/// A file in memory.
struct Map {
    watched: Option<Watched>, // dropped before what it watches
    bytes: Mmap,
}

/// Files that are mapped when they are first needed, and stay mapped. Their descriptors are closed at once.
pub struct MappedFiles {
    files: Vec<(PathBuf, Listed)>,
    /// What each was made of, and is looked at with it; none where they were made of nothing.
    made_of: Vec<(PathBuf, Listed)>,
    maps: Vec<OnceLock<Map>>,
    /// When each was looked at, in nanoseconds since `made`; 0 for never.
    looked_at: Vec<AtomicU64>,
    made: Instant,
}

impl MappedFiles {
    /// Files by path, with what each must be, and the same of the file that each was made of, if they are copies in another layout.
    #[must_use]
    pub fn new(files: Vec<(PathBuf, Listed)>, made_of: Vec<(PathBuf, Listed)>) -> Self {
        let maps = files.iter().map(|_| OnceLock::new()).collect();
        let looked_at = files.iter().map(|_| AtomicU64::new(0)).collect();
        Self { files, made_of, maps, looked_at, made: Instant::now() }
    }

    /// Maps the files of these numbers, and checks that every one still is what it was, unless it just did; returns each of them once.
    ///
    /// # Errors
    /// The first file that is missing, cannot be mapped, or is another.
    pub fn check(&self, numbers: &[i64]) -> Result<Vec<usize>, FileError> {
        let mut used: Vec<usize> = numbers.iter().filter_map(|&number| usize::try_from(number).ok()).collect();
        used.dedup();
        used.sort_unstable();
        used.dedup();
        used.retain(|&number| number < self.files.len());
        let now = u64::try_from(self.made.elapsed().as_nanos()).unwrap_or(u64::MAX);
        used.iter().try_for_each(|&number| {
            let before = self.looked_at[number].load(Ordering::Relaxed);
            if before == 0 || now.saturating_sub(before) >= LOOK_AGAIN_NS {
                self.check_one(number)?;
                self.looked_at[number].store(now.max(1), Ordering::Relaxed);
            }
            Ok(())
        })?;
        Ok(used)
    }

    fn check_one(&self, number: usize) -> Result<(), FileError> {
        let (path, listed) = &self.files[number];
        let failed = |error| FileError::new(path, &error);
        if let Some((path, listed)) = self.made_of.get(number) {
            listed.check(path, &path.metadata().map_err(|error| FileError::new(path, &error))?)?;
        }
        if self.maps[number].get().is_some() {
            return listed.check(path, &path.metadata().map_err(failed)?);
        }
        let file = listed.open(path)?;
        // SAFETY: see the top of this file.
        let bytes = unsafe { Mmap::map(&file) }.map_err(failed)?;
        let map = Map { watched: Watched::new(bytes.as_ptr().addr(), bytes.len()), bytes };
        if map.bytes.len() as u64 != listed.size {
            return listed.check(path, &file.metadata().map_err(failed)?).and_then(|()| Err(lost(path)));
        }
        self.maps[number].get_or_init(|| map); // of another thread, if that was earlier
        Ok(())
    }

    /// Checks that all that was copied of files, after they passed `check`, was really there.
    ///
    /// # Errors
    /// The first file that was not.
    pub fn check_whole(&self, used: &[usize]) -> Result<(), FileError> {
        let is_lost = |map: &Map| map.watched.as_ref().is_some_and(Watched::is_lost);
        let gone = used.iter().find(|&&number| self.maps[number].get().is_some_and(is_lost));
        gone.map_or(Ok(()), |&number| Err(lost(&self.files[number].0)))
    }

    /// The bytes of a file that has passed `check`.
    #[must_use]
    pub fn bytes(&self, number: usize) -> Option<&[u8]> {
        self.maps.get(number)?.get().map(|map| &map.bytes[..])
    }
}

fn lost(path: &Path) -> FileError {
    let found = "cut while it was read, or its disk failed".to_owned();
    FileError { path: path.display().to_string(), found, missing: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_size(size: u64) -> Listed {
        Listed { size, stamp: None }
    }

    #[test]
    fn a_file_that_was_cut_is_seen() {
        let path = std::env::temp_dir().join(format!("penstock-mapped-{}", std::process::id()));
        std::fs::write(&path, b"hello").unwrap();
        let files =
            MappedFiles::new(vec![(path.clone(), of_size(5)), (path.with_extension("gone"), of_size(1))], vec![]);
        assert!(files.bytes(0).is_none());
        assert_eq!(files.check(&[0, 0, -1, 7]).unwrap(), [0]);
        assert_eq!(files.bytes(0), Some(&b"hello"[..]));
        assert!(files.check(&[0, 1]).unwrap_err().missing);
        std::fs::write(&path, b"hi").unwrap();
        std::thread::sleep(std::time::Duration::from_nanos(LOOK_AGAIN_NS));
        assert!(files.check(&[0]).unwrap_err().found.contains("2 bytes now, 5 when"));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_is_another_where_what_it_was_made_of_is() {
        let path = std::env::temp_dir().join(format!("penstock-made-{}", std::process::id()));
        let packed = path.with_extension("packed");
        std::fs::write(&path, b"hello").unwrap();
        std::fs::write(&packed, b"hi").unwrap();
        let files = MappedFiles::new(vec![(path.clone(), of_size(5))], vec![(packed.clone(), of_size(2))]);
        assert_eq!(files.check(&[0]).unwrap(), [0]);
        std::fs::write(&packed, b"bye").unwrap();
        std::thread::sleep(std::time::Duration::from_nanos(LOOK_AGAIN_NS));
        assert_eq!(files.check(&[0]).unwrap_err().path, packed.display().to_string());
        std::fs::remove_file(&packed).unwrap();
        assert!(files.check(&[0]).unwrap_err().missing);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_that_is_cut_between_check_and_copy_is_seen_after_it() {
        let path = std::env::temp_dir().join(format!("penstock-cut-{}", std::process::id()));
        std::fs::write(&path, vec![7; 100_000]).unwrap();
        let files = MappedFiles::new(vec![(path.clone(), of_size(100_000))], vec![]);
        let used = files.check(&[0]).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
        let copied = files.bytes(0).unwrap().to_vec();
        assert_eq!((copied[9], copied[99_999]), (7, 0));
        assert!(files.check_whole(&used).unwrap_err().found.contains("cut while"));
        std::fs::remove_file(&path).unwrap();
    }
}
