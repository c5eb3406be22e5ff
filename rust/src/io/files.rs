//! Local files: reading many byte ranges at once, in native threads.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::core::errors::FileError;
use crate::io::stat::{Listed, Stamp};

/// Bytes that are read between two looks at a stop flag.
const PIECE_BYTES: usize = 16 << 20;

/// A byte range of a file and its destination.
pub struct Range<'a> {
    /// The file.
    pub path: &'a str,
    /// Its number: ranges are read file after file.
    pub number: i64,
    /// Its size when the dataset was indexed.
    pub size: u64,
    /// First byte.
    pub offset: u64,
    /// Filled to its end.
    pub out: &'a mut [u8],
}

impl Range<'_> {
    fn listed(&self, stamps: &[i64]) -> Listed {
        let stamp = usize::try_from(self.number).ok().and_then(|number| Stamp::find(stamps, number));
        Listed { size: self.size, stamp }
    }
}

/// Reads all ranges, in parallel, in the order of files and of places in them: ranges of one file share an open file. `stamps` says which
/// versions the files were (see [`Stamp::find`]). Once `stopped` is set, the rest is not read.
///
/// # Errors
/// The first file that is missing, cannot be read, or is another than it was.
pub fn read(
    ranges: &mut [Range<'_>],
    stamps: &[i64],
    ranges_per_task: usize,
    stopped: &AtomicBool,
) -> Result<(), FileError> {
    ranges.sort_unstable_by_key(|range| (range.number, range.offset));
    let tasks = ranges.par_chunks_mut(ranges_per_task.max(1));
    let failed = tasks.map(|ranges| read_in_turn(ranges, stamps, stopped)).find_map_first(Result::err);
    failed.map_or(Ok(()), Err)
}

/// Reads ranges one after the other, in the calling thread; neighbours of one file share an open file.
///
/// # Errors
/// As [`read`].
pub fn read_in_turn(ranges: &mut [Range<'_>], stamps: &[i64], stopped: &AtomicBool) -> Result<(), FileError> {
    let mut open: Option<(&str, File)> = None;
    for range in ranges {
        let path = Path::new(range.path);
        let file = match open.take() {
            Some((name, file)) if name == range.path => file,
            _ => range.listed(stamps).open(path)?,
        };
        let mut offset = range.offset;
        for piece in range.out.chunks_mut(PIECE_BYTES) {
            if stopped.load(Ordering::Relaxed) {
                return Ok(());
            }
            file.read_exact_at(piece, offset).map_err(|error| FileError::new(path, &error))?;
            offset += piece.len() as u64;
        }
        open = Some((range.path, file));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::folders::walk;

    static ON: AtomicBool = AtomicBool::new(false);

    #[test]
    fn walks_sorted_without_hidden_files_and_reads_ranges() {
        let root = std::env::temp_dir().join(format!("penstock-files-{}", std::process::id()));
        std::fs::create_dir_all(root.join("b")).unwrap();
        for (name, text) in [("b/2.txt", "two"), ("a.txt", "one"), (".hidden", "no")] {
            std::fs::write(root.join(name), text).unwrap();
        }
        let found = walk(&root, &ON).unwrap();
        let names: Vec<&str> = found.iter().map(|e| e.path.strip_prefix(root.to_str().unwrap()).unwrap()).collect();
        assert_eq!(names, ["/a.txt", "/b/2.txt"]);

        assert!(walk(&root, &AtomicBool::new(true)).unwrap().is_empty(), "a walk that nobody wants ends");

        let (mut first, mut second) = ([0; 2], [0; 3]);
        let mut ranges = [
            Range { path: &found[0].path, number: 1, size: 3, offset: 1, out: &mut first },
            Range { path: &found[1].path, number: 0, size: 3, offset: 0, out: &mut second },
        ];
        read(&mut ranges, &[], 1, &ON).unwrap();
        assert_eq!((&first, &second), (b"ne", b"two"));
        let mut unread = [0; 2];
        let mut ranges = [Range { path: &found[0].path, number: 1, size: 3, offset: 1, out: &mut unread }];
        read(&mut ranges, &[], 1, &AtomicBool::new(true)).unwrap();
        assert_eq!(unread, [0; 2]);

        let mut ranges = [Range { path: &found[0].path, number: 0, size: 4, offset: 0, out: &mut first }];
        assert!(read(&mut ranges, &[], 1, &ON).unwrap_err().found.contains("3 bytes now, 4 when"));
        std::fs::remove_dir_all(root).unwrap();
    }
}
