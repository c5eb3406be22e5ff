//! MXNet RecordIO framing (dmlc-core, `include/dmlc/recordio.h`): of each part the magic number, a word of 3 bits flag and
//! 29 bits length, and the data padded to 4 bytes; all little-endian. A record that holds the magic number at a multiple of
//! 4 is cut there into several parts, and the magic number left out.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::headers::Headers;
use super::index::{Index, Lengths, index_each, open_listed};
use super::recordio_header::{HEADER_BYTES, part, part_bytes};
use super::{Progress, place_of, positions, truncated};
use crate::core::errors::{FileTrouble, Trouble};

/// Walks the records of `size` bytes that `read(at, buffer)` gives access to, and calls `each` with the length of every
/// record, with headers and padding. Memory is bounded, whatever the lengths say.
///
/// # Errors
/// At the first header that is none, and at the first record that is longer than `record_bytes` or than the rest.
pub fn walk_records(
    size: u64,
    record_bytes: u64,
    read: impl FnMut(u64, &mut [u8]) -> Result<(), Trouble>,
    mut each: impl FnMut(u64) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    let mut headers = Headers::new(size, read);
    let (mut at, mut begin, mut record, mut previous) = (0_u64, 0_u64, 0_u64, 0_u64);
    while at < size {
        let rest = size - at;
        if rest < HEADER_BYTES as u64 {
            return Err(truncated(record, at, format!("{rest} bytes are left, a header takes {HEADER_BYTES}")));
        }
        let header = headers.at(at, previous)?;
        let (kind, length) = part(header)
            .filter(|(kind, _)| kind.fits(at > begin))
            .ok_or_else(|| bad_header(record, at, header, at > begin))?;
        previous = part_bytes(length);
        if previous > rest {
            return Err(truncated(record, at, format!("a part of {previous} bytes, {rest} are left")));
        }
        at += previous;
        if at - begin > record_bytes {
            let found = format!("a record of at least {} bytes, the limit is {record_bytes}", at - begin);
            let remedy = "raise Limits.record_bytes if the file can be trusted";
            return Err(Trouble::data(place_of(record, begin), found, remedy));
        }
        if kind.ends() {
            each(at - begin)?;
            begin = at;
            record += 1;
        }
    }
    if at > begin {
        return Err(truncated(record, begin, "its last part is missing".to_owned()));
    }
    Ok(())
}

fn bad_header(record: u64, at: u64, header: [u8; HEADER_BYTES], inside: bool) -> Trouble {
    let hex: Vec<String> = header.iter().map(|byte| format!("{byte:02x}")).collect();
    let wanted = if inside { "the next part of this record" } else { "a record" };
    let found = format!("{} is no header of {wanted}", hex.join(" "));
    let remedy = if at == 0 {
        "this is not a RecordIO file, or its beginning is damaged"
    } else {
        "the file is damaged here or something was appended to it: write it again"
    };
    Trouble::data(place_of(record, at), found, remedy)
}

/// One file to index.
#[derive(Debug, Clone)]
pub struct Job {
    /// The file.
    pub path: PathBuf,
    /// Its size when it was listed.
    pub size: u64,
    /// The file that states where its records begin, if there is one.
    pub positions: Option<PathBuf>,
}

/// The length of every record of a file, headers and padding included, in order; the records lie without gaps. They come
/// from the file of positions where this agrees with the records, and else from the headers of all records.
///
/// # Errors
/// If the file cannot be read, is not of its size, or its headers are damaged.
pub fn index(job: &Job, record_bytes: u64, progress: &Progress) -> Result<Vec<i64>, Trouble> {
    let file = open_listed(&job.path, job.size)?;
    if let Some(path) = &job.positions
        && let Some(lengths) = positions::lengths(path, &file, job.size, record_bytes)
    {
        progress.add(job.size)?;
        return Ok(lengths);
    }
    let mut lengths = Lengths::new(progress);
    let read = |at: u64, buffer: &mut [u8]| Ok(file.read_exact_at(buffer, at)?);
    walk_records(job.size, record_bytes, read, |length| lengths.push(length))?;
    lengths.finish()
}

/// Indexes files in parallel.
///
/// # Errors
/// Of the first file that fails, see [`index`].
pub fn index_files(jobs: &[Job], record_bytes: u64, threads: usize, progress: &Progress) -> Result<Index, FileTrouble> {
    index_each(jobs.len(), threads, |file| index(&jobs[file], record_bytes, progress))
}

/// The file of positions that belongs to a file of records: "a.rec" has "a.idx"; None if it is not there.
#[must_use]
pub fn positions_of(path: &Path) -> Option<PathBuf> {
    let found = path.with_extension("idx");
    found.is_file().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::super::recordio_header::MAGIC;
    use super::*;

    fn frame(flag: u32, data: &[u8]) -> Vec<u8> {
        let mut out = MAGIC.to_le_bytes().to_vec();
        out.extend((flag << 29 | data.len() as u32).to_le_bytes());
        out.extend(data);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    fn lengths(data: &[u8]) -> Result<Vec<u64>, Trouble> {
        let mut found = Vec::new();
        let read = |at: u64, out: &mut [u8]| {
            out.copy_from_slice(&data[at as usize..at as usize + out.len()]);
            Ok(())
        };
        walk_records(data.len() as u64, 1 << 20, read, |length| {
            found.push(length);
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn records_of_one_and_of_several_parts() {
        let data = [frame(0, b"one"), frame(1, b"four"), frame(2, b""), frame(3, b"x"), frame(0, b"")].concat();
        assert_eq!(lengths(&data).unwrap(), [12, 12 + 8 + 12, 8]);
        assert!(lengths(b"").unwrap().is_empty());
    }

    #[test]
    fn parts_out_of_turn_and_cut_files_are_told() {
        for bad in [
            frame(2, b"x"),
            frame(3, b"x"),
            [frame(1, b"x"), frame(0, b"x")].concat(),
            [frame(1, b"x"), frame(1, b"x")].concat(),
            frame(1, b"x"),
            frame(4, b"x"),
        ] {
            assert!(lengths(&bad).is_err());
        }
        let whole = [frame(0, b"one"), frame(1, b"four"), frame(3, b"x")].concat();
        for size in 1..whole.len() {
            assert_eq!(lengths(&whole[..size]).is_ok(), size == 12, "{size} bytes");
        }
    }

    #[test]
    fn long_records_are_refused() {
        let many = [frame(1, &[7; 600 << 10]), frame(3, &[7; 600 << 10])].concat();
        let found = lengths(&many).unwrap_err().to_string();
        assert!(found.contains("record 0, byte 0: a record of at least"), "{found}");
    }
}
