//! Files that were packed as a whole: recognised by content. GZIP and ZLIB are unpacked here, once, to a file that can then
//! be read at any place; the others by libraries on the side of Python.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};

use flate2::read::{MultiGzDecoder, ZlibDecoder};

use super::tfrecord::{HEADER_BYTES, data_length};
use super::{Progress, for_each_file};
use crate::core::errors::{FileTrouble, Trouble};
use crate::io::stat::open_regular;

const STEP_BYTES: usize = 1 << 20;
/// Bytes by which a packing is recognised.
const START_BYTES: usize = 512;

/// How a file is packed; the numbers stand in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    Plain = 0,
    /// RFC 1952, possibly several members.
    Gzip = 1,
    /// RFC 1950.
    Zlib = 2,
    /// RFC 8878.
    Zstandard = 3,
    /// As `bzip2` writes.
    Bzip2 = 4,
    /// As `xz` writes.
    Xz = 5,
    /// LZ4 frames, as `lz4` writes.
    Lz4 = 6,
}

/// First bytes that identify a file's compression. ZLIB has too few to distinguish it from text.
const MAGIC: [(&[u8], Packing); 6] = [
    (b"\x1F\x8B\x08", Packing::Gzip),
    (b"\x28\xB5\x2F\xFD", Packing::Zstandard),
    (b"\xFD7zXZ\0", Packing::Xz),
    (b"\x04\x22\x4D\x18", Packing::Lz4),
    (b"1AY&SY", Packing::Bzip2),
    (b"\x17rE8P\x90", Packing::Bzip2),
];

/// How a file of any format is packed, from its first bytes.
#[must_use]
pub fn recognise_magic(start: &[u8]) -> Packing {
    let bzip2 = matches!(start, [b'B', b'Z', b'h', b'1'..=b'9', ..]);
    let start = if bzip2 { &start[4..] } else { start };
    let known = MAGIC.iter().find(|(magic, packing)| start.starts_with(magic) && (*packing == Packing::Bzip2) == bzip2);
    known.map_or(Packing::Plain, |(_, packing)| *packing)
}

/// Bounds on what a packed file may become.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes of one unpacked file.
    pub unpacked_bytes: u64,
    /// Unpacked bytes for each packed byte; only checked above 1 MiB.
    pub ratio: u64,
    /// Bytes that all files together may take on the disk.
    pub room_bytes: u64,
}

/// How a TFRecord file is packed, from its first bytes. A header with the right sum is plain, whatever it looks like:
/// the length 0x8b1f begins with gzip's magic bytes.
#[must_use]
pub fn recognise(start: &[u8]) -> Packing {
    if start.first_chunk::<HEADER_BYTES>().is_some_and(|header| data_length(header).is_ok()) {
        return Packing::Plain;
    }
    match start {
        [first, second, ..] if first & 0x0F == 8 && first >> 4 <= 7 && is_multiple_of_31(*first, *second) => {
            Packing::Zlib
        }
        _ => recognise_magic(start),
    }
}

fn is_multiple_of_31(first: u8, second: u8) -> bool {
    (u16::from(first) << 8 | u16::from(second)) % 31 == 0
}

/// How files are packed, from their first bytes (512 at most) by `recognise`.
///
/// # Errors
/// Of the first file that cannot be read.
pub fn recognise_files<P: AsRef<Path> + Sync>(
    files: &[P],
    threads: usize,
    recognise: impl Fn(&[u8]) -> Packing + Sync,
) -> Result<Vec<Packing>, FileTrouble> {
    for_each_file(files.len(), threads, |file| {
        let mut start = Vec::with_capacity(START_BYTES);
        open_regular(files[file].as_ref())?.take(START_BYTES as u64).read_to_end(&mut start)?;
        Ok(recognise(&start))
    })
}

/// One file to unpack.
#[derive(Debug, Clone)]
pub struct Job {
    /// The packed file.
    pub path: PathBuf,
    /// How it is packed.
    pub packing: Packing,
    /// The file to make; it appears whole or not at all.
    pub target: PathBuf,
    /// Where it is written before it is whole, in the same directory.
    pub scratch: PathBuf,
}

/// Unpacks files in parallel and returns their unpacked sizes. Progress counts packed bytes.
///
/// # Errors
/// Of the first file that is damaged, exceeds the bounds or does not fit on the disk; its scratch file is removed.
pub fn unpack_files(
    jobs: &[Job],
    bounds: Bounds,
    threads: usize,
    progress: &Progress,
) -> Result<Vec<i64>, FileTrouble> {
    let room = AtomicI64::new(i64::try_from(bounds.room_bytes).unwrap_or(i64::MAX));
    for_each_file(jobs.len(), threads, |file| {
        let job = &jobs[file];
        let result = unpack(job, bounds, &room, progress);
        if result.is_err() {
            // Best effort: the error that matters is the one being returned.
            let _ = std::fs::remove_file(&job.scratch);
        }
        result
    })
}

/// A new, locked file, so that no process takes it for a leftover of a killed one (`scratch.py`).
fn locked_file(path: &Path) -> std::io::Result<File> {
    loop {
        let file = File::create_new(path)?;
        let _ = file.lock(); // not every file system has locks
        if file.metadata()?.nlink() > 0 {
            return Ok(file);
        } // removed before it was locked
    }
}

fn unpack(job: &Job, bounds: Bounds, room: &AtomicI64, progress: &Progress) -> Result<i64, Trouble> {
    let source = open_regular(&job.path)?;
    let packed_bytes = source.metadata()?.len();
    let most = bounds.ratio.saturating_mul(packed_bytes).max(1 << 20).min(bounds.unpacked_bytes);
    let counted = BufReader::with_capacity(STEP_BYTES, Counted { source, progress });
    let mut reader: Box<dyn Read + '_> = match job.packing {
        Packing::Gzip => Box::new(MultiGzDecoder::new(counted)),
        Packing::Zlib => Box::new(ZlibDecoder::new(counted)),
        _ => return Err(Trouble::data("", "an unknown compression", "report this as a bug of Penstock")),
    };
    let mut target = locked_file(&job.scratch)?;
    let mut buffer = vec![0; STEP_BYTES];
    let mut total = 0_u64;
    loop {
        progress.add(0)?;
        let got = match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(got) => got,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(damaged(total, &error)),
        };
        total += got as u64;
        if total > most {
            let found = format!("{packed_bytes} compressed bytes expand to more than {most}");
            return Err(Trouble::data(
                "",
                found,
                "raise Limits.unpacked_bytes or Limits.ratio if the file can be trusted",
            ));
        }
        if room.fetch_sub(got as i64, Ordering::Relaxed) < got as i64 {
            return Err(Trouble::DiskFull { room: bounds.room_bytes });
        }
        target.write_all(&buffer[..got])?;
    }
    target.flush()?;
    std::fs::rename(&job.scratch, &job.target)?; // before the lock is released
    Ok(total as i64)
}

fn damaged(total: u64, error: &std::io::Error) -> Trouble {
    if error.raw_os_error().is_some() {
        return Trouble::System(std::io::Error::new(error.kind(), error.to_string()));
    }
    let place = format!("after {total} decompressed bytes");
    Trouble::data(
        place,
        format!("compressed data that cannot be decompressed ({error})"),
        "copy or write the file again",
    )
}

/// Counts what is read.
struct Counted<'a> {
    source: File,
    progress: &'a Progress,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let got = self.source.read(buffer)?;
        // A stop is seen by the loop that unpacks.
        let _ = self.progress.add(got as u64);
        Ok(got)
    }
}
