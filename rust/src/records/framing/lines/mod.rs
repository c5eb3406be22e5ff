//! Lines as records: plain text, JSON lines, and CSV as RFC 4180 and its readers have it.
//!
//! A record ends behind its "\n" (so "\r\n" ends one as well), the last one at the end of the file. Where blank lines are
//! no records, they belong to the record that follows, or to the last one, so that records lie without gaps. A byte order
//! mark of UTF-8 belongs to none.

use crate::core::errors::{FileTrouble, Trouble};

mod parts;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use self::parts::{Part, Table, plain_part};
use super::index::open_listed;
use super::{Progress, for_each_file, place_of};

/// Bytes that one task looks at; small enough for its positions to be u32.
const CHUNK_BYTES: u64 = 4 << 20;
/// Memory that must be there before a chunk is looked at: it may be nothing but line ends, whose places take four bytes each.
const LEAST_FREE_BYTES: usize = 16 * CHUNK_BYTES as usize;
const UTF8_MARK: &[u8] = b"\xEF\xBB\xBF";
const UTF16_MARKS: [&[u8]; 2] = [b"\xFF\xFE", b"\xFE\xFF"];

/// Which lines are no records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blank {
    /// None: an empty line is a record.
    Kept,
    /// Empty ones.
    Empty,
    /// Those of white space only.
    White,
}

/// What a record is.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Which lines are no records.
    pub blank: Blank,
    /// The byte between fields, where "\n" inside quotes ends no record. A quote opens only where a field begins.
    pub quoted: Option<u8>,
    /// Whether the first record is a header, which is left out.
    pub header: bool,
}

impl Style {
    /// Whether a file must be followed from its beginning.
    fn is_table(self) -> bool {
        self.quoted.is_some() || self.blank == Blank::Empty
    }
}

/// The records of one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Where the first record begins.
    pub start: i64,
    /// The length of each, its line end included.
    pub lengths: Vec<i64>,
}

/// The records of a file, of its parts in order.
fn join(start: u64, parts: &[Part], style: Style, record_bytes: u64) -> Result<Lines, Trouble> {
    let count = parts.iter().map(|part| part.ends.len()).sum::<usize>() + 1;
    let mut lines = Lines { start: start as i64, lengths: Vec::new() };
    lines.lengths.try_reserve_exact(count).map_err(|_| too_many())?;
    let (mut before, mut at, mut blank) = (start, start, style.blank != Blank::Kept);
    let mut header = style.header;
    let mut end_record = |end: u64, before: &mut u64, lines: &mut Lines| {
        let length = end - *before;
        if length > record_bytes {
            let found = format!("a line of {length} bytes, the limit is {record_bytes}");
            let remedy = "raise Limits.record_bytes if the file can be trusted";
            return Err(Trouble::data(place_of(lines.lengths.len() as u64, *before), found, remedy));
        }
        if std::mem::take(&mut header) {
            lines.start = end as i64;
        } else {
            lines.lengths.push(length as i64);
        }
        *before = end;
        Ok(())
    };
    for part in parts {
        let first = usize::from(blank && part.head_blank && !part.ends.is_empty());
        for &end in &part.ends[first..] {
            end_record(at + u64::from(end), &mut before, &mut lines)?;
        }
        blank = part.tail_blank && (blank || !part.ends.is_empty());
        at += u64::from(part.bytes);
    }
    if parts.last().is_some_and(|part| part.open) {
        return Err(Trouble::data(
            place_of(lines.lengths.len() as u64, before),
            "a quote is opened and never closed",
            "the file is truncated or damaged here; where quotes mean nothing, pass quotes=False",
        ));
    }
    if at > before && !(style.blank != Blank::Kept && blank) {
        end_record(at, &mut before, &mut lines)?;
    } else if let Some(last) = lines.lengths.last_mut() {
        *last += (at - before) as i64;
    }
    Ok(lines)
}

#[cold]
fn too_many() -> Trouble {
    let found = "so many lines that their places are more than the memory which this process may have";
    Trouble::data("", found, "give the process more memory, or cut the file into several and read some")
}

/// Where the text begins: behind a byte order mark.
fn text_start(file: &File, size: u64) -> Result<u64, Trouble> {
    let mut head = vec![0; 3.min(size as usize)];
    file.read_exact_at(&mut head, 0)?;
    if UTF16_MARKS.iter().any(|mark| head.starts_with(mark)) {
        return Err(Trouble::data("byte 0", "the byte order mark of UTF-16 or UTF-32", "convert the file to UTF-8"));
    }
    Ok(if head == UTF8_MARK { 3 } else { 0 })
}

/// One task: a part of a file, or all parts of one whose quotes must be followed from the beginning.
fn scan(path: &Path, size: u64, first: u64, end: u64, style: Style, progress: &Progress) -> Result<Vec<Part>, Trouble> {
    let file = open_listed(path, size)?;
    let start = text_start(&file, size)?;
    let mut table = style.is_table().then(|| Table::new(style.quoted, style.blank));
    let mut buffer = vec![0; CHUNK_BYTES.min(end - first) as usize];
    let mut parts = Vec::new();
    let mut at = first.max(start);
    while at < end {
        let stop = end.min((at / CHUNK_BYTES + 1) * CHUNK_BYTES);
        let chunk = &mut buffer[..(stop - at) as usize];
        file.read_exact_at(chunk, at)?;
        Vec::<u8>::new().try_reserve_exact(LEAST_FREE_BYTES).map_err(|_| too_many())?;
        parts.push(match &mut table {
            Some(table) => table.part(chunk),
            None => plain_part(chunk, style.blank),
        });
        progress.add(stop - at)?;
        at = stop;
    }
    Ok(parts)
}

/// The records of files, indexed in parallel, large files in parts unless their quotes must be followed.
///
/// # Errors
/// Of the first file that cannot be read, is not of the given size, has a record of more than `record_bytes` bytes, or a
/// quote that is not closed.
pub fn index_files<P: AsRef<Path> + Sync>(
    files: &[(P, u64)],
    style: Style,
    record_bytes: u64,
    threads: usize,
    progress: &Progress,
) -> Result<Vec<Lines>, FileTrouble> {
    let step = if style.is_table() { u64::MAX } else { CHUNK_BYTES };
    let tasks: Vec<(usize, u64)> = (0..files.len())
        .flat_map(|file| (0..files[file].1.div_ceil(step).max(1)).map(move |chunk| (file, chunk)))
        .collect();
    let parts = for_each_file(tasks.len(), threads, |task| {
        let (file, chunk) = tasks[task];
        let (path, size) = &files[file];
        let first = chunk * if chunk == 0 { 0 } else { step };
        scan(path.as_ref(), *size, first, first.saturating_add(step).min(*size), style, progress)
    });
    let parts = parts.map_err(|FileTrouble { file, trouble }| FileTrouble { file: tasks[file].0, trouble })?;
    let mut joined = Vec::with_capacity(files.len());
    let mut rest = tasks.iter().zip(parts).peekable();
    for (file, (_, size)) in files.iter().enumerate() {
        let mut of_file = Vec::new();
        while let Some((_, parts)) = rest.next_if(|((owner, _), _)| *owner == file) {
            of_file.extend(parts);
        }
        let start = size - of_file.iter().map(|part| u64::from(part.bytes)).sum::<u64>();
        joined.push(join(start, &of_file, style, record_bytes).map_err(|trouble| FileTrouble { file, trouble })?);
    }
    Ok(joined)
}

/// The records of bytes in memory: what fuzzing and tests look at.
///
/// # Errors
/// See [`index_files`].
pub fn index_bytes(bytes: &[u8], chunk_bytes: usize, style: Style, record_bytes: u64) -> Result<Lines, Trouble> {
    let start = if bytes.starts_with(UTF8_MARK) { 3 } else { 0 };
    let mut table = style.is_table().then(|| Table::new(style.quoted, style.blank));
    let chunks = bytes[start..].chunks(chunk_bytes.max(1));
    let parts: Vec<Part> = chunks
        .map(|chunk| match &mut table {
            Some(table) => table.part(chunk),
            None => plain_part(chunk, style.blank),
        })
        .collect();
    join(start as u64, &parts, style, record_bytes)
}

/// A line without its end.
#[must_use]
pub fn trimmed(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
