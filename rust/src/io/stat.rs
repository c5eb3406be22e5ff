//! What the system says of a file, and whether a file still is what it was when it was listed.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::core::errors::FileError;

/// Numbers of a stamp.
pub const STAMP: usize = 3;
/// In place of a stamp that is not known.
const UNKNOWN: i64 = -1;

/// Which version of which file: the times of its last modification and of its last change, in nanoseconds since 1970, and its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(pub [i64; STAMP]);

impl Stamp {
    /// The stamp of a file.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        let ns = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        let changed = ns(metadata.ctime(), metadata.ctime_nsec());
        Self([ns(metadata.mtime(), metadata.mtime_nsec()), changed, metadata.ino().cast_signed()])
    }

    /// The stamp of file number `number` in a flat list of them; None where none is known.
    #[must_use]
    pub fn find(stamps: &[i64], number: usize) -> Option<Self> {
        let first = number.checked_mul(STAMP)?;
        let found = stamps.get(first..first.checked_add(STAMP)?)?.try_into().ok()?;
        (found != [UNKNOWN; STAMP]).then_some(Self(found))
    }

    /// Whether `now` is of the same file and content. Permissions and links change the time of change alone, and some file systems
    /// number their inodes anew: only both together are another file.
    #[must_use]
    pub fn is_of(&self, now: &Self) -> bool {
        let ([modified, changed, inode], [modified_now, changed_now, inode_now]) = (self.0, now.0);
        modified == modified_now && (changed == changed_now || inode == inode_now)
    }
}

/// One file of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path, the root included.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Which version of it.
    pub stamp: Stamp,
}

/// The entry of one file; None if it is no regular file (a socket, say). A link that leads nowhere is a file of no bytes, which
/// fails when it is read: leaving it out would go unnoticed.
///
/// # Errors
/// A name that is not UTF-8, a file that cannot be looked at.
pub fn stat(path: &Path) -> Result<Option<Entry>, FileError> {
    let told = |error: io::Error| FileError::new(path, &error);
    let (is_file, size, stamp) = match path.metadata() {
        Ok(metadata) => (metadata.is_file(), metadata.len(), Stamp::of(&metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_symlink() => {
            (true, 0, Stamp::of(&path.symlink_metadata().map_err(told)?))
        }
        Err(error) => return Err(told(error)),
    };
    let Some(name) = path.to_str() else {
        let found = "the name is not UTF-8; rename the file".to_owned();
        return Err(FileError { path: path.display().to_string(), found, missing: false });
    };
    let entry = Entry { path: name.to_owned(), size, stamp };
    Ok(is_file.then_some(entry))
}

/// What a file was when it was listed. Without a stamp, only its size counts.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// Bytes.
    pub size: u64,
    /// Which version it is.
    pub stamp: Option<Stamp>,
}

impl Listed {
    /// # Errors
    /// A file that is none any more, or another.
    pub fn check(&self, path: &Path, now: &Metadata) -> Result<(), FileError> {
        let found = if !now.is_file() {
            "no regular file, which it was when it was indexed".to_owned()
        } else if now.len() != self.size {
            format!("{} bytes now, {} when it was indexed", now.len(), self.size)
        } else if self.stamp.is_some_and(|stamp| !stamp.is_of(&Stamp::of(now))) {
            "replaced or rewritten since it was indexed".to_owned()
        } else {
            return Ok(());
        };
        Err(FileError { path: path.display().to_string(), found, missing: false })
    }

    /// Opens the file if it still is what it was.
    ///
    /// # Errors
    /// A file that is missing, that cannot be opened, or that is another.
    pub fn open(&self, path: &Path) -> Result<File, FileError> {
        let failed = |error| FileError::new(path, &error);
        let file = open_at_once(path).map_err(failed)?;
        self.check(path, &file.metadata().map_err(failed)?)?;
        Ok(file)
    }
}

/// Opens a file without waiting for a writer if it became a pipe; its bytes are then for the caller to refuse.
pub(crate) fn open_at_once(path: &Path) -> io::Result<File> {
    match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock && path.metadata()?.is_file() => File::open(path), // leased
        opened => opened,
    }
}

/// Opens a regular file.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let file = open_at_once(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("no regular file")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_new_numbers_are_no_change() {
        let stamp = Stamp([1, 2, 3]);
        assert!([[1, 2, 3], [1, 9, 3], [1, 2, 9]].into_iter().all(|now| stamp.is_of(&Stamp(now))));
        assert!([[9, 2, 3], [1, 9, 9]].into_iter().all(|now| !stamp.is_of(&Stamp(now))));
        assert_eq!(Stamp::find(&[1, 2, 3, -1, -1, -1], 0), Some(stamp));
        assert_eq!(Stamp::find(&[1, 2, 3, -1, -1, -1], 1), None);
        assert_eq!(Stamp::find(&[1, 2, 3], 1), None);
    }

    #[test]
    fn what_is_no_file_any_more_is_not_opened() {
        let listed = Listed { size: 0, stamp: None };
        let found = listed.open(&std::env::temp_dir()).unwrap_err().found;
        assert!(found.contains("no regular file"), "{found}");
    }
}
