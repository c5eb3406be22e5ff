//! Records in a piece of a stream: those that are whole. What follows the last of them waits for the stream's next bytes.

use super::{recordio_header, tfrecord};
use crate::core::errors::Trouble;

/// How a stream's records follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framed {
    /// See [`tfrecord`].
    TfRecord,
    /// See [`super::recordio`].
    RecordIo,
    /// A record ends with a newline.
    Lines,
}

/// The length of every whole record at the beginning of `data`, frames, padding and newlines included; the first of them is
/// number `first` of the stream.
///
/// # Errors
/// At the first header that is none, and at the first record that is longer than `record_bytes`, whole or not.
pub fn whole_records(framed: Framed, data: &[u8], first: u64, record_bytes: u64) -> Result<Vec<i64>, Trouble> {
    let mut lengths = Vec::new();
    let mut rest = data;
    loop {
        let record = first + lengths.len() as u64;
        let length = match framed {
            Framed::TfRecord => frame(rest, record)?,
            Framed::RecordIo => parts(rest, record)?,
            Framed::Lines => memchr::memchr(b'\n', rest).map_or(rest.len() as u64 + 1, |end| end as u64 + 1),
        };
        if length > record_bytes.saturating_add(recordio_header::HEADER_BYTES as u64 + tfrecord::FRAME_BYTES as u64) {
            let found = format!("a record of at least {length} bytes, the limit is {record_bytes}");
            let remedy = "raise Limits.record_bytes if the stream can be trusted";
            return Err(Trouble::data(format!("record {record}"), found, remedy));
        }
        if length == 0 || length > rest.len() as u64 {
            return Ok(lengths);
        }
        lengths.push(length as i64);
        rest = &rest[length as usize..];
    }
}

/// The length of a frame, whole or not; 0 where its header is not.
fn frame(rest: &[u8], record: u64) -> Result<u64, Trouble> {
    let Some(header) = rest.first_chunk() else { return Ok(0) };
    let length =
        tfrecord::data_length(header).map_err(|_| damaged(record, "a length that does not have its checksum"))?;
    Ok(length.saturating_add(tfrecord::FRAME_BYTES as u64))
}

/// The length of all parts of a record; one more than there is where parts or a header are missing.
fn parts(rest: &[u8], record: u64) -> Result<u64, Trouble> {
    let mut at = 0;
    loop {
        let left = rest.get(at as usize..).unwrap_or(&[]);
        let Some(header) = left.first_chunk() else {
            return Ok(if rest.is_empty() { 0 } else { rest.len() as u64 + 1 });
        };
        let found = recordio_header::part(*header).filter(|(kind, _)| kind.fits(at > 0));
        let (kind, length) = found.ok_or_else(|| damaged(record, "bytes that are no header"))?;
        at += recordio_header::part_bytes(length);
        if kind.ends() || at > rest.len() as u64 {
            return Ok(at);
        }
    }
}

fn damaged(record: u64, found: &str) -> Trouble {
    let remedy = "the stream is damaged, or of another format";
    Trouble::data(format!("record {record}"), found, remedy)
}

#[cfg(test)]
mod tests {
    use super::{Framed, whole_records};

    fn recordio(data: &[u8]) -> Vec<u8> {
        let word = u32::try_from(data.len()).expect("short");
        let mut made = [super::recordio_header::MAGIC.to_le_bytes(), word.to_le_bytes()].concat();
        made.extend_from_slice(data);
        made.resize(8 + data.len().next_multiple_of(4), 0);
        made
    }

    #[test]
    fn what_is_not_whole_waits() {
        let stream = [recordio(b"one"), recordio(b"twenty"), recordio(b"")].concat();
        for end in 0..stream.len() {
            let whole = i64::from(end >= 12) + i64::from(end >= 28);
            let found = whole_records(Framed::RecordIo, &stream[..end], 0, 1 << 20).expect("no damage");
            assert_eq!(found.len() as i64, whole, "{end} bytes");
        }
        assert_eq!(whole_records(Framed::RecordIo, &stream, 0, 1 << 20).expect("no damage"), [12, 16, 8]);
        assert_eq!(whole_records(Framed::Lines, b"a\n\nbc", 0, 1 << 20).expect("no damage"), [2, 1]);
    }

    #[test]
    fn damage_is_named_by_its_record() {
        let mut stream = [recordio(b"one"), recordio(b"two")].concat();
        stream[12] ^= 1;
        let error = whole_records(Framed::RecordIo, &stream, 5, 1 << 20).expect_err("damaged").to_string();
        assert!(error.starts_with("record 6: bytes that are no header"), "{error}");
        assert!(whole_records(Framed::Lines, &[b'x'; 100], 0, 10).is_err());
    }
}
