//! The data of RecordIO records: where it lies, and records of several parts put together again.

use super::recordio_header::{HEADER_BYTES, MAGIC, part, part_bytes};
use crate::core::errors::RowFailure;
use crate::core::gather::span;

/// Where the data of each record lies.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Payloads {
    /// The buffer; one more than there are stands for `joined`.
    pub which: Vec<i64>,
    /// First byte in it.
    pub offset: Vec<i64>,
    /// Bytes.
    pub length: Vec<i64>,
    /// The data of records of several parts.
    pub joined: Vec<u8>,
}

/// Finds the data of records that lie, with headers and padding, in spans of `buffers`.
///
/// # Errors
/// The first row whose span is no whole record.
pub fn payloads(buffers: &[&[u8]], which: &[i64], offset: &[i64], length: &[i64]) -> Result<Payloads, RowFailure> {
    let mut found = Payloads::default();
    for places in [&mut found.which, &mut found.offset, &mut found.length] {
        places.reserve_exact(which.len());
    }
    for row in 0..which.len() {
        let record = span(buffers, which[row], offset[row], length[row])
            .ok_or_else(|| failure(row, "the record does not lie in what was read".to_owned()))?;
        match whole(record) {
            Some(bytes) => {
                found.which.push(which[row]);
                found.offset.push(offset[row] + HEADER_BYTES as i64);
                found.length.push(bytes as i64);
            }
            None => {
                let start = found.joined.len();
                join(record, &mut found.joined).map_err(|what| failure(row, what))?;
                found.which.push(buffers.len() as i64);
                found.offset.push(start as i64);
                found.length.push((found.joined.len() - start) as i64);
            }
        }
    }
    Ok(found)
}

/// The data's length, if the record is one part and nothing else.
#[inline]
fn whole(record: &[u8]) -> Option<u64> {
    let (kind, length) = part(*record.first_chunk()?)?;
    (kind.ends() && kind.fits(false) && part_bytes(length) == record.len() as u64).then_some(length)
}

/// Appends the data of all parts, with the magic number between them.
fn join(record: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let mut at = 0;
    loop {
        let header = record.get(at..).and_then(<[u8]>::first_chunk);
        let Some((kind, length)) = header.and_then(|header| part(*header)).filter(|(kind, _)| kind.fits(at > 0)) else {
            return Err(format!("no header of a part at byte {at} of the record"));
        };
        let end = at as u64 + part_bytes(length);
        if end > record.len() as u64 || kind.ends() != (end == record.len() as u64) {
            let found = if kind.ends() { "ends" } else { "goes on" };
            return Err(format!(
                "the record {found} at byte {end} of it, the index says it has {} bytes",
                record.len()
            ));
        }
        let data = at + HEADER_BYTES;
        out.extend_from_slice(&record[data..data + length as usize]);
        if kind.ends() {
            return Ok(());
        }
        out.extend_from_slice(&MAGIC.to_le_bytes());
        at = end as usize;
    }
}

fn failure(row: usize, found: String) -> RowFailure {
    let remedy = "the file is damaged here or changed since it was indexed, or its .idx file belongs to another";
    RowFailure { row, found, remedy: remedy.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(flag: u32, data: &[u8]) -> Vec<u8> {
        let mut out = MAGIC.to_le_bytes().to_vec();
        out.extend((flag << 29 | data.len() as u32).to_le_bytes());
        out.extend(data);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    #[test]
    fn one_part_stays_where_it_is_and_several_are_joined() {
        let one = [vec![9; 3], frame(0, b"hello")].concat();
        let many = [frame(1, b"four"), frame(2, b""), frame(3, b"x")].concat();
        let length = [one.len() as i64 - 3, many.len() as i64];
        let found = payloads(&[&one, &many], &[0, 1], &[3, 0], &length).unwrap();
        assert_eq!((found.which, found.offset, found.length), (vec![0, 2], vec![11, 0], vec![5, 13]));
        let magic = MAGIC.to_le_bytes();
        assert_eq!(found.joined, [b"four".as_slice(), &magic, &magic, b"x"].concat());
    }

    #[test]
    fn spans_that_are_no_record_are_told() {
        let many = [frame(1, b"four"), frame(3, b"x")].concat();
        for bad in [
            &many[..12],
            &many[..20],
            &many[4..],
            &[frame(0, b"a"), frame(0, b"b")].concat(),
            &frame(0, b"a")[..9],
            &frame(2, b"a"),
            b"",
        ] {
            assert!(payloads(&[bad], &[0], &[0], &[bad.len() as i64]).is_err(), "{bad:?}");
        }
        assert_eq!(payloads(&[&many], &[0, 0], &[0, 0], &[24, 25]).unwrap_err().row, 1);
    }
}
