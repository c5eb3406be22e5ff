//! What goes wrong with a row, with a file, and with one file of several; `bind` makes Python's errors of them.

use std::io;
use std::path::Path;

/// A row that failed, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFailure {
    /// The row of the batch.
    pub row: usize,
    /// What was found, and what was expected.
    pub found: String,
    /// What to do.
    pub remedy: String,
}

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

/// Why a file could not be indexed or unpacked.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The system's complaint.
    #[error("{0}")]
    System(#[from] io::Error),
    /// The file is damaged, hostile or of another kind; `place` is empty or like "record 3, byte 120".
    #[error("{place}: {found}; {remedy}")]
    Data {
        /// Where in the file.
        place: String,
        /// What was found there.
        found: String,
        /// What to do.
        remedy: String,
    },
    /// Unpacking would fill the disk.
    #[error("decompressing needs more than the {room} bytes that are free")]
    DiskFull {
        /// Bytes that may be written.
        room: u64,
    },
    /// Someone called `Progress::stop`.
    #[error("stopped")]
    Stopped,
}

impl Trouble {
    pub(crate) fn data(place: impl Into<String>, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Data { place: place.into(), found: found.into(), remedy: remedy.into() }
    }
}

/// Trouble with one file of several.
#[derive(Debug)]
pub struct FileTrouble {
    /// The file's place in the list.
    pub file: usize,
    /// What is wrong with it.
    pub trouble: Trouble,
}
