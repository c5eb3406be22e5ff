//! Local files: walking a folder and reading many byte ranges at once, in native threads.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rayon::prelude::*;

/// Depth at which a walk gives up: links that form a circle end here.
const MAX_DEPTH: usize = 64;

/// A path with what went wrong there.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {found}")]
pub struct FileError {
    /// The file or folder.
    pub path: String,
    /// What was found instead of what was expected.
    pub found: String,
    /// Whether it was not there at all.
    pub missing: bool,
}

impl FileError {
    pub(crate) fn new(path: &Path, error: &io::Error) -> Self {
        Self {
            path: path.display().to_string(),
            found: error.to_string(),
            missing: error.kind() == io::ErrorKind::NotFound,
        }
    }
}

/// One file of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path, the root included.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Modification time in nanoseconds since 1970.
    pub mtime_ns: i64,
}

fn mtime_ns(metadata: &Metadata) -> i64 {
    metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec())
}

/// All files below `root`, links followed, in the order of their paths' bytes; names that begin with a dot are left out, and
/// files that vanish meanwhile.
///
/// # Errors
/// A folder that cannot be read, a name that is not UTF-8, folders nested deeper than 64.
pub fn walk(root: &Path) -> Result<Vec<Entry>, FileError> {
    let mut found = walk_below(root, 0)?;
    found.sort_unstable_by(|a, b| a.path.as_bytes().cmp(b.path.as_bytes()));
    Ok(found)
}

fn walk_below(folder: &Path, depth: usize) -> Result<Vec<Entry>, FileError> {
    if depth > MAX_DEPTH {
        let found = format!("folders nested deeper than {MAX_DEPTH}; is there a circle of links?");
        return Err(FileError { path: folder.display().to_string(), found, missing: false });
    }
    let mut folders = Vec::new();
    let mut files = Vec::new();
    for entry in folder.read_dir().map_err(|error| FileError::new(folder, &error))? {
        let entry = entry.map_err(|error| FileError::new(folder, &error))?;
        if entry.file_name().as_encoded_bytes().first() == Some(&b'.') {
            continue;
        }
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => folders.push(path),
            Ok(kind) if kind.is_symlink() && path.is_dir() => folders.push(path),
            Ok(_) => files.push(path),
            Err(error) => return Err(FileError::new(&path, &error)),
        }
    }
    let mut found: Vec<Entry> = files
        .par_iter()
        .with_min_len(256)
        .filter_map(|path| still_there(path).transpose())
        .collect::<Result<_, _>>()?;
    let below: Vec<Vec<Entry>> =
        folders.par_iter().map(|path| walk_below(path, depth + 1)).collect::<Result<_, _>>()?;
    found.extend(below.into_iter().flatten());
    Ok(found)
}

fn still_there(path: &Path) -> Result<Option<Entry>, FileError> {
    match stat(path) {
        Err(error) if error.missing => Ok(None),
        found => found,
    }
}

/// The entry of one file; None if it is no regular file (a socket, say). A link that leads nowhere is a file of no bytes, which
/// fails when it is read: leaving it out would go unnoticed.
///
/// # Errors
/// A name that is not UTF-8, a file that cannot be looked at.
pub fn stat(path: &Path) -> Result<Option<Entry>, FileError> {
    let told = |error: io::Error| FileError::new(path, &error);
    let (is_file, size, mtime_ns) = match path.metadata() {
        Ok(metadata) => (metadata.is_file(), metadata.len(), mtime_ns(&metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_symlink() => {
            (true, 0, mtime_ns(&path.symlink_metadata().map_err(told)?))
        }
        Err(error) => return Err(told(error)),
    };
    let Some(name) = path.to_str() else {
        let found = "the name is not UTF-8; rename the file".to_owned();
        return Err(FileError { path: path.display().to_string(), found, missing: false });
    };
    let entry = Entry { path: name.to_owned(), size, mtime_ns };
    Ok(is_file.then_some(entry))
}

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

/// Reads all ranges, in parallel, in the order of files and of places in them: ranges of one file share an open file.
///
/// # Errors
/// The first file that is missing, cannot be read, or has another size.
pub fn read(ranges: &mut [Range<'_>], ranges_per_task: usize) -> Result<(), FileError> {
    ranges.sort_unstable_by_key(|range| (range.number, range.offset));
    let tasks = ranges.par_chunks_mut(ranges_per_task.max(1));
    let failed = tasks.map(read_in_turn).find_map_first(Result::err);
    failed.map_or(Ok(()), Err)
}

/// Reads ranges one after the other, in the calling thread; neighbours of one file share an open file.
///
/// # Errors
/// As [`read`].
pub fn read_in_turn(ranges: &mut [Range<'_>]) -> Result<(), FileError> {
    let mut open: Option<(&str, File)> = None;
    for range in ranges {
        let path = Path::new(range.path);
        let file = match open.take() {
            Some((name, file)) if name == range.path => file,
            _ => open_unchanged(path, range.size)?,
        };
        file.read_exact_at(range.out, range.offset).map_err(|error| FileError::new(path, &error))?;
        open = Some((range.path, file));
    }
    Ok(())
}

/// A file that must be of its size.
pub(crate) fn open_unchanged(path: &Path, size: u64) -> Result<File, FileError> {
    let file = File::open(path).map_err(|error| FileError::new(path, &error))?;
    let now = file.metadata().map_err(|error| FileError::new(path, &error))?.len();
    if now == size {
        return Ok(file);
    }
    let found = format!("{now} bytes now, {size} when it was indexed");
    Err(FileError { path: path.display().to_string(), found, missing: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_sorted_without_hidden_files_and_reads_ranges() {
        let root = std::env::temp_dir().join(format!("penstock-files-{}", std::process::id()));
        std::fs::create_dir_all(root.join("b")).unwrap();
        for (name, text) in [("b/2.txt", "two"), ("a.txt", "one"), (".hidden", "no")] {
            std::fs::write(root.join(name), text).unwrap();
        }
        let found = walk(&root).unwrap();
        let names: Vec<&str> = found.iter().map(|e| e.path.strip_prefix(root.to_str().unwrap()).unwrap()).collect();
        assert_eq!(names, ["/a.txt", "/b/2.txt"]);

        let (mut first, mut second) = ([0; 2], [0; 3]);
        let mut ranges = [
            Range { path: &found[0].path, number: 1, size: 3, offset: 1, out: &mut first },
            Range { path: &found[1].path, number: 0, size: 3, offset: 0, out: &mut second },
        ];
        read(&mut ranges, 1).unwrap();
        assert_eq!((&first, &second), (b"ne", b"two"));

        let mut ranges = [Range { path: &found[0].path, number: 0, size: 4, offset: 0, out: &mut first }];
        assert!(read(&mut ranges, 1).unwrap_err().found.contains("3 bytes now, 4 when"));
        std::fs::remove_dir_all(root).unwrap();
    }
}
