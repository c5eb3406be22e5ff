//! Records of fields that lie one behind the other, as MDS samples and LitData items are: a u32 for the size of each field
//! that has no fixed one, then all fields.

use rayon::ThreadPool;

use crate::core::errors::RowFailure;
use crate::core::gather::span;
use crate::core::pool::find_first;

/// Bytes that one task of the pool copies, so that small copies stay on few threads.
const BYTES_PER_TASK: usize = 1 << 16;
/// Bytes of a stated size.
const SIZE_BYTES: usize = 4;

/// Rows' places in buffers that were read before: equally long, see `spec.Spans`.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// What was read.
    pub buffers: &'a [&'a [u8]],
    /// The buffer of each row.
    pub which: &'a [i64],
    /// Its first byte there.
    pub offset: &'a [i64],
    /// Its bytes.
    pub length: &'a [i64],
}

impl<'a> Rows<'a> {
    fn bytes(&self, row: usize) -> Result<&'a [u8], RowFailure> {
        let found = span(self.buffers, self.which[row], self.offset[row], self.length[row]);
        found.ok_or_else(|| failure(row, "the record does not lie in what was read".to_owned()))
    }
}

fn failure(row: usize, found: String) -> RowFailure {
    let remedy = "the file is damaged here, or its index belongs to another: write it again";
    RowFailure { row, found, remedy: remedy.to_owned() }
}

/// Where the fields of records lie in their buffers; `widths` are the fields' fixed sizes, None where a record states it.
/// `places` and `lengths` have an entry for each field of each row, field after field.
///
/// # Errors
/// The first row whose fields are not exactly as long as the row.
pub fn split(
    rows: Rows<'_>,
    widths: &[Option<u64>],
    places: &mut [i64],
    lengths: &mut [i64],
) -> Result<(), RowFailure> {
    let count = rows.which.len();
    let stated = widths.iter().filter(|width| width.is_none()).count() * SIZE_BYTES;
    for row in 0..count {
        let bytes = rows.bytes(row)?;
        let Some((mut sizes, _)) = bytes.split_at_checked(stated) else {
            let found = format!("a record of {} bytes, the sizes of its fields alone take {stated}", bytes.len());
            return Err(failure(row, found));
        };
        let mut at = stated as u64;
        for (field, width) in widths.iter().enumerate() {
            let length = width.unwrap_or_else(|| {
                let (size, rest) = sizes.split_at(SIZE_BYTES);
                sizes = rest;
                u64::from(u32::from_le_bytes([size[0], size[1], size[2], size[3]]))
            });
            places[field * count + row] = rows.offset[row].saturating_add_unsigned(at);
            lengths[field * count + row] = i64::try_from(length).unwrap_or(i64::MAX);
            at = at.saturating_add(length);
        }
        if at != bytes.len() as u64 {
            return Err(failure(row, format!("fields of {at} bytes in a record of {}", bytes.len())));
        }
    }
    Ok(())
}

/// The elements of lists, row after row.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Elements {
    /// How many each row has.
    pub counts: Vec<i64>,
    /// The buffer of each element.
    pub which: Vec<i64>,
    /// Its first byte there.
    pub offset: Vec<i64>,
    /// Its bytes.
    pub length: Vec<i64>,
}

/// Finds the elements of rows that are lists: after `skip` bytes a u32 for their number, a u32 for the size of each, and
/// the elements.
///
/// # Errors
/// The first row that is no list, or is longer than its elements.
pub fn elements(rows: Rows<'_>, skip: usize) -> Result<Elements, RowFailure> {
    let mut found = Elements::default();
    for row in 0..rows.which.len() {
        let bytes = rows.bytes(row)?;
        let list = bytes.get(skip..).and_then(|list| list.split_first_chunk());
        let Some((count, rest)) = list.map(|(count, rest)| (u32::from_le_bytes(*count) as usize, rest)) else {
            return Err(failure(
                row,
                format!("a list of {} bytes, its header takes {}", bytes.len(), skip + SIZE_BYTES),
            ));
        };
        let sizes = count.checked_mul(SIZE_BYTES).and_then(|size| rest.get(..size));
        let Some(sizes) = sizes else {
            return Err(failure(row, format!("a list of {count} elements in {} bytes", bytes.len())));
        };
        let mut at = (skip + SIZE_BYTES + sizes.len()) as u64;
        for size in sizes.as_chunks().0 {
            let size = u32::from_le_bytes(*size);
            found.which.push(rows.which[row]);
            found.offset.push(rows.offset[row].saturating_add_unsigned(at));
            found.length.push(i64::from(size));
            at += u64::from(size);
        }
        if at != bytes.len() as u64 {
            return Err(failure(row, format!("a list whose elements end at byte {at} in {} bytes", bytes.len())));
        }
        found.counts.push(count as i64);
    }
    Ok(found)
}

/// Copies what follows `prefix` in each row to `out`, `row_bytes` for every row.
///
/// # Errors
/// The first row that does not begin with the prefix or is of another length.
pub fn copy(
    rows: Rows<'_>,
    prefix: &[u8],
    row_bytes: usize,
    out: &mut [u8],
    pool: Option<&ThreadPool>,
) -> Result<(), RowFailure> {
    if row_bytes == 0 {
        return (0..rows.which.len()).try_for_each(|row| body(rows, row, prefix, 0).map(|_| ()));
    }
    let rows_per_task = (BYTES_PER_TASK / row_bytes).max(1);
    let tasks = out.chunks_mut(rows_per_task * row_bytes).collect();
    let bad = find_first(pool, tasks, |task, out: &mut [u8]| {
        let mut places = out.chunks_exact_mut(row_bytes).zip(task * rows_per_task..);
        places.find_map(|(place, row)| match body(rows, row, prefix, row_bytes) {
            Ok(bytes) => {
                place.copy_from_slice(bytes);
                None
            }
            Err(failure) => Some(failure),
        })
    });
    bad.map_or(Ok(()), Err)
}

fn body<'a>(rows: Rows<'a>, row: usize, prefix: &[u8], row_bytes: usize) -> Result<&'a [u8], RowFailure> {
    let bytes = rows.bytes(row)?;
    match bytes.strip_prefix(prefix) {
        Some(body) if body.len() == row_bytes => Ok(body),
        Some(body) => Err(other(row, format!("{} bytes of values where the column takes {row_bytes}", body.len()))),
        None => {
            let begin = &bytes[..prefix.len().min(bytes.len())];
            Err(other(row, format!("the header {begin:02x?} where the first records have {prefix:02x?}")))
        }
    }
}

fn other(row: usize, found: String) -> RowFailure {
    let remedy = "the record is damaged, or its values have another dtype or shape than those of the first records";
    RowFailure { row, found, remedy: remedy.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows<'a>(buffers: &'a [&'a [u8]], which: &'a [i64], offset: &'a [i64], length: &'a [i64]) -> Rows<'a> {
        Rows { buffers, which, offset, length }
    }

    #[test]
    fn fields_of_fixed_and_of_stated_sizes() {
        let record = [2_u32.to_le_bytes().as_slice(), &0_u32.to_le_bytes(), b"ab", b"12345678"].concat();
        let buffer = [b"xyz".as_slice(), &record].concat();
        let (mut places, mut lengths) = ([0; 3], [0; 3]);
        let length = [record.len() as i64];
        let buffers: [&[u8]; 1] = [&buffer];
        let one = rows(&buffers, &[0], &[3], &length);
        split(one, &[None, Some(8), None], &mut places, &mut lengths).unwrap();
        assert_eq!((places, lengths), ([11, 13, 21], [2, 8, 0]));
        for widths in [&[None, Some(7), None][..], &[None, Some(9), None], &[None; 9], &[Some(u64::MAX), None]] {
            let (mut places, mut lengths) = (vec![0; widths.len()], vec![0; widths.len()]);
            assert!(split(one, widths, &mut places, &mut lengths).is_err(), "{widths:?}");
        }
    }

    #[test]
    fn elements_of_lists() {
        let two = [[0, 2, 1, 3].map(u32::to_le_bytes).as_flattened(), b"abcd"].concat();
        let none = [0_u8; 8];
        let length = [two.len() as i64, 8];
        let found = elements(rows(&[&two, &none], &[0, 1], &[0, 0], &length), 4).unwrap();
        assert_eq!((found.counts, found.which), (vec![2, 0], vec![0, 0]));
        assert_eq!((found.offset, found.length), (vec![16, 17], vec![1, 3]));
        for bad in [&two[..19], &two[..9], &two[..7], &[255; 8]] {
            assert!(elements(rows(&[bad], &[0], &[0], &[bad.len() as i64]), 4).is_err());
        }
    }

    #[test]
    fn what_follows_the_prefix_is_copied() {
        let mut out = [0; 4];
        let buffers: [&[u8]; 1] = [b"hdabhdcd"];
        let two = rows(&buffers, &[0, 0], &[4, 0], &[4, 4]);
        copy(two, b"hd", 2, &mut out, None).unwrap();
        assert_eq!(&out, b"cdab");
        assert_eq!(copy(two, b"hx", 2, &mut out, None).unwrap_err().row, 0);
        assert_eq!(copy(rows(&buffers, &[0, 0], &[4, 0], &[4, 5]), b"hd", 2, &mut out, None).unwrap_err().row, 1);
        assert_eq!(copy(rows(&buffers, &[0, 0], &[4, 5], &[4, 4]), b"", 4, &mut [0; 8], None).unwrap_err().row, 1);
        assert!(copy(two, b"hdab", 0, &mut [], None).is_err());
    }
}
