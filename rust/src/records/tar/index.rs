//! Where the samples of archives lie: from a sample's first header to the next one's, so that what belongs to no sample is part
//! of the sample before it.

use std::collections::HashSet;
use std::path::Path;

use super::bytes::{Bytes, FileBytes};
use super::members::{Member, Walk, place_of};
use super::sample::{lower, split};
use crate::core::errors::{FileTrouble, Trouble};
use crate::records::framing::index::open_listed;
use crate::records::framing::{Progress, for_each_file};

/// The samples of one archive: where the first begins, and how long each is; they lie without gaps.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// Byte of the first sample.
    pub start: i64,
    /// Bytes of each.
    pub lengths: Vec<i64>,
}

/// The sample that is being put together.
struct Open {
    key: String,
    extensions: HashSet<String>,
    start: u64,
}

impl Open {
    /// Takes a member with this extension, the first of its name.
    fn add(&mut self, member: &Member<'_>, extension: &str) -> Result<(), Trouble> {
        if self.extensions.insert(lower(extension).into_owned()) {
            return Ok(());
        }
        let found = format!("a second member {:?} of one sample", member.name);
        Err(Trouble::data(place_of(member.start), found, "give each sample a key of its own and write the file again"))
    }
}

/// Finds the samples of an archive.
///
/// # Errors
/// At the first member that is damaged, at one that a sample has twice, and at a sample longer than `record_bytes`.
pub fn find_samples(bytes: &mut impl Bytes, record_bytes: u64, progress: &Progress) -> Result<Samples, Trouble> {
    let mut walk = Walk::archive();
    let mut open = Open { key: String::new(), extensions: HashSet::new(), start: 0 };
    let mut found = Samples::default();
    let mut told = 0;
    while let Some(member) = walk.next(bytes)? {
        let Some((key, extension)) = split(member.name).filter(|_| member.is_file) else { continue };
        if open.extensions.is_empty() || key != open.key {
            if open.extensions.is_empty() {
                found.start = member.start as i64;
            } else {
                found.lengths.push(length_of(&open, member.start, record_bytes)?);
            }
            key.clone_into(&mut open.key);
            open.extensions.clear();
            open.start = member.start;
        }
        open.add(&member, extension)?;
        if member.start - told >= 1 << 20 {
            progress.add(member.start - told)?;
            told = member.start;
        }
    }
    if !open.extensions.is_empty() {
        found.lengths.push(length_of(&open, walk.at(), record_bytes)?);
    }
    progress.add(bytes.size() - told)?;
    Ok(found)
}

fn length_of(open: &Open, end: u64, record_bytes: u64) -> Result<i64, Trouble> {
    let length = end - open.start;
    if length <= record_bytes {
        return Ok(length as i64);
    }
    let found = format!("sample {:?} has {length} bytes, the limit is {record_bytes}", open.key);
    Err(Trouble::data(place_of(open.start), found, "raise Limits.record_bytes if the file can be trusted"))
}

/// The samples of many archives, in parallel, file after file.
///
/// # Errors
/// Of the first file that fails: it cannot be read, is not of its size, or see [`find_samples`].
pub fn index_files<P: AsRef<Path> + Sync>(
    files: &[(P, u64)],
    record_bytes: u64,
    threads: usize,
    progress: &Progress,
) -> Result<Vec<Samples>, FileTrouble> {
    for_each_file(files.len(), threads, |number| {
        let (path, size) = &files[number];
        let file = open_listed(path.as_ref(), *size)?;
        find_samples(&mut FileBytes::new(file, *size), record_bytes, progress)
    })
}
