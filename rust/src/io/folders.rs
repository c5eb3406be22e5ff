//! Walking a folder with the folders that links lead to.

use std::collections::HashMap;
use std::fs::DirEntry;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rayon::prelude::*;

use crate::core::errors::FileError;
use crate::io::stat::{Entry, stat};

/// Links within linked folders may give so many names to files and folders that have one already, each counted once a link on its
/// way. Two links a folder, over 64 folders, would give 2⁶⁴.
const MOST_REPEATED: usize = 1 << 18;

/// All files below `root`, links followed, in the order of their paths' bytes; names that begin with a dot are left out, and so are
/// files that vanish meanwhile and what is no regular file. Once `stopped` is set, the walk ends, and what it found so far is returned. A link back to a folder on the way to it is not followed: what is
/// there has a name already.
///
/// # Errors
/// A folder that cannot be read, a name that is not UTF-8, links that give too many names to the same files.
pub fn walk(root: &Path, stopped: &AtomicBool) -> Result<Vec<Entry>, FileError> {
    let repeated = Repeated::default();
    let mut found = Vec::new();
    let mut level = vec![Folder::new(root.to_path_buf(), None, 0)];
    while !level.is_empty() && !stopped.load(Ordering::Relaxed) {
        let read: Vec<_> =
            level.par_iter().map(|folder| read_folder(folder, &repeated, stopped)).collect::<Result<_, _>>()?;
        level.clear();
        for (files, folders) in read {
            found.extend(files);
            level.extend(folders);
        }
    }
    found.sort_unstable_by(|a: &Entry, b| a.path.as_bytes().cmp(b.path.as_bytes()));
    Ok(found)
}

/// Device and inode; None if the folder cannot be looked at.
type Identity = Option<(u64, u64)>;

/// A folder and the way to it; `links` of its names on that way are links.
struct Folder {
    path: PathBuf,
    above: Option<Arc<Folder>>,
    links: usize,
    identity: OnceLock<Identity>,
}

impl Folder {
    fn new(path: PathBuf, above: Option<Arc<Self>>, links: usize) -> Arc<Self> {
        Arc::new(Self { path, above, links, identity: OnceLock::new() })
    }

    /// Looked up when first asked for: without links no folder needs it.
    fn identity(&self) -> Identity {
        *self.identity.get_or_init(|| self.path.metadata().ok().map(|found| (found.dev(), found.ino())))
    }

    fn is_on_its_own_way(&self) -> bool {
        let mut above = self.above.as_deref();
        while let Some(folder) = above {
            if folder.identity() == self.identity() {
                return true;
            }
            above = folder.above.as_deref();
        }
        false
    }
}

/// How often each folder was reached by links within linked folders, and how many names that repeated.
#[derive(Default)]
struct Repeated(Mutex<(HashMap<Identity, usize>, usize)>);

impl Repeated {
    fn count(&self, folder: &Folder, names: usize) -> Result<(), FileError> {
        if folder.links < 2 {
            return Ok(());
        }
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (times, repeated) = &mut *counted;
        let before = times.entry(folder.identity()).or_default();
        *repeated += if *before == 0 { 0 } else { (names + 1) * (folder.links - 1) };
        *before += 1;
        if *repeated <= MOST_REPEATED {
            return Ok(());
        }
        let found = "links within linked folders give too many further names to the same files; remove some of these links, or \
             pass the folders that hold the files".to_owned();
        Err(FileError { path: folder.path.display().to_string(), found, missing: false })
    }
}

/// A folder's files, and the folders to walk next.
fn read_folder(
    folder: &Arc<Folder>,
    repeated: &Repeated,
    stopped: &AtomicBool,
) -> Result<(Vec<Entry>, Vec<Arc<Folder>>), FileError> {
    let failed = |error| FileError::new(&folder.path, &error);
    let wanted = || !stopped.load(Ordering::Relaxed);
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    for entry in folder.path.read_dir().map_err(failed)?.take_while(|_| wanted()) {
        let entry = entry.map_err(failed)?;
        if entry.file_name().as_encoded_bytes().first() == Some(&b'.') {
            continue;
        }
        match folder_of(&entry, folder)? {
            Some(below) => folders.push(below),
            None => files.push(entry.path()),
        }
    }
    repeated.count(folder, files.len() + folders.len())?;
    folders.retain(|below| below.links == 0 || !below.is_on_its_own_way());
    let files =
        files.par_iter().with_min_len(256).filter(|_| wanted()).filter_map(|path| still_there(path).transpose());
    Ok((files.collect::<Result<_, _>>()?, folders))
}

/// The folder that an entry of a folder is or leads to; None for anything else.
fn folder_of(entry: &DirEntry, above: &Arc<Folder>) -> Result<Option<Arc<Folder>>, FileError> {
    let path = entry.path();
    let kind = entry.file_type().map_err(|error| FileError::new(&path, &error))?;
    let is_link = kind.is_symlink();
    let is_folder = kind.is_dir() || (is_link && path.is_dir());
    if !is_folder {
        return Ok(None);
    }
    Ok(Some(Folder::new(path, Some(Arc::clone(above)), above.links + usize::from(is_link))))
}

fn still_there(path: &Path) -> Result<Option<Entry>, FileError> {
    match stat(path) {
        Err(error) if error.missing => Ok(None),
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, remove_dir_all, write};
    use std::os::unix::fs::symlink;

    use super::*;

    /// The names below a new folder that `make` fills.
    fn walked(name: &str, make: impl Fn(&Path)) -> Result<Vec<String>, FileError> {
        let root = std::env::temp_dir().join(format!("penstock-walk-{name}-{}", std::process::id()));
        create_dir_all(&root).unwrap();
        make(&root);
        let found = walk(&root, &AtomicBool::new(false));
        remove_dir_all(&root).unwrap();
        let below = |entry: Entry| entry.path.strip_prefix(root.to_str().unwrap()).unwrap()[1..].to_owned();
        found.map(|found| found.into_iter().map(below).collect())
    }

    #[test]
    fn links_back_to_folders_on_the_way_are_not_followed() {
        let found = walked("circles", |root| {
            create_dir_all(root.join("a/deep")).unwrap();
            create_dir_all(root.join("b")).unwrap();
            for path in ["a/1", "a/deep/2", "b/3"] {
                write(root.join(path), path).unwrap();
            }
            for number in 0..30 {
                symlink(root, root.join(format!("self{number}"))).unwrap();
                symlink(root.join("a"), root.join(format!("a/deep/up{number}"))).unwrap();
            }
            symlink(root.join("b"), root.join("a/to_b")).unwrap();
            symlink(root.join("a"), root.join("b/to_a")).unwrap();
        });
        let expected = ["a/1", "a/deep/2", "a/to_b/3", "b/3", "b/to_a/1", "b/to_a/deep/2"];
        assert_eq!(found.unwrap(), expected);
    }

    #[test]
    fn a_fan_of_links_is_an_error_and_not_a_walk_without_an_end() {
        let fan = |levels: usize| {
            walked(&format!("fan{levels}"), |root| {
                for level in 0..levels {
                    create_dir_all(root.join(format!(".{level}"))).unwrap();
                    write(root.join(format!(".{level}/file")), "").unwrap();
                }
                for level in 1..levels {
                    for name in ["left", "right"] {
                        symlink(root.join(format!(".{level}")), root.join(format!(".{}/{name}", level - 1))).unwrap();
                    }
                }
                symlink(root.join(".0"), root.join("first")).unwrap();
            })
        };
        assert_eq!(fan(5).unwrap().len(), 1 + 2 + 4 + 8 + 16);
        assert!(fan(38).unwrap_err().found.contains("further names"));
    }

    #[test]
    fn folders_may_be_nested_deeper_than_a_stack() {
        let found = walked("deep", |root| {
            let deep = root.join("d/".repeat(900));
            create_dir_all(&deep).unwrap();
            write(deep.join("file"), "").unwrap();
        });
        assert_eq!(found.unwrap().len(), 1);
    }
}
