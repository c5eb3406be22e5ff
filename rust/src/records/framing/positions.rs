//! MXNet's .idx files: a line of text for each record, its key and the byte at which it begins. They are trusted only as
//! far as the records agree with them.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::recordio_header::{HEADER_BYTES, part, part_bytes};
use crate::io::stat::open_regular;

/// Bytes that a line has at most on average; a longer file is none of positions.
const LINE_BYTES: u64 = 64;
/// Records whose headers are looked at.
const PROBES: usize = 64;
/// Parts of one record that are looked at.
const PARTS: usize = 1 << 16;

/// The length of every record, in the file's order, as the positions say; None if they do not cover the whole file, or
/// disagree with any of the records that are looked at.
#[must_use]
pub fn lengths(path: &Path, records: &File, size: u64, record_bytes: u64) -> Option<Vec<i64>> {
    let most = (size / HEADER_BYTES as u64 + 1).saturating_mul(LINE_BYTES);
    let (mut file, mut text) = (open_regular(path).ok()?, Vec::new());
    if file.metadata().ok()?.len() > most {
        return None;
    }
    file.read_to_end(&mut text).ok()?;
    let mut starts = parse(&text)?;
    starts.sort_unstable();
    starts.push(size);
    let sound = starts[0] == 0
        && starts.windows(2).all(|pair| {
            let length = pair[1].saturating_sub(pair[0]);
            pair[0] % 4 == 0 && length >= HEADER_BYTES as u64 && length <= record_bytes
        });
    if !sound || starts.len() < 2 {
        return None;
    }
    let last = starts.len() - 2;
    let agree = (0..PROBES.min(last + 1)).all(|probe| {
        let record = if last < PROBES { probe } else { probe * last / (PROBES - 1) };
        ends_at(records, starts[record]) == Some(starts[record + 1])
    });
    if !agree {
        return None;
    }
    Some(starts.windows(2).map(|pair| (pair[1] - pair[0]) as i64).collect())
}

/// The number at the end of each line.
fn parse(text: &[u8]) -> Option<Vec<u64>> {
    let lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let number = line.rsplit(u8::is_ascii_whitespace).next()?;
            std::str::from_utf8(number).ok()?.parse().ok()
        })
        .collect()
}

/// Where the record that begins at `at` ends; None if there is none.
fn ends_at(records: &File, mut at: u64) -> Option<u64> {
    for number in 0..PARTS {
        let mut header = [0; HEADER_BYTES];
        records.read_exact_at(&mut header, at).ok()?;
        let (kind, length) = part(header).filter(|(kind, _)| kind.fits(number > 0))?;
        at += part_bytes(length);
        if kind.ends() {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_keys_and_positions() {
        assert_eq!(parse(b"0\t0\n1\t24\r\n\nkey two\t48").unwrap(), [0, 24, 48]);
        assert_eq!(parse(b""), Some(vec![]));
        assert_eq!(parse(b"0\tx\n"), None);
        assert_eq!(parse(b"0\t-4\n"), None);
        assert_eq!(parse(b"0\t99999999999999999999\n"), None);
    }
}
