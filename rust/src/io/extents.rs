//! What a cache keeps: which pieces hold ranges whole, so that all of them can be read at once, and their bytes, compared with their
//! checksums whenever they are read.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rayon::prelude::*;

use crate::core::crc32c;
use crate::core::errors::FileError;
use crate::io::stat::Listed;

/// Bytes of a row of the table, and where in it the fields lie: `EXTENT` of `storage/cache/extents.py`.
pub const ROW_BYTES: usize = 40;
const BEGIN: usize = 0;
const END: usize = 8;
const PACK: usize = 16;
const POSITION: usize = 24;
const CHECKSUM: usize = 32;
const IN_BLOCKS: usize = 36;
const ALIVE: usize = 37;

/// A piece in blocks is followed by the checksums of these, so that a part of it can be checked alone.
/// `BLOCK_BYTES` of `storage/cache/pieces.py`.
pub const BLOCK_BYTES: u64 = 8 << 10;
const SUM_BYTES: usize = 4;
/// So many blocks are read at once, and compared while they are in the nearer caches.
const TOGETHER: usize = 16;

/// Pieces in the order of their places, which do not overlap: where each ends, and its number in the table.
pub struct Part<'a> {
    /// Ends, ascending.
    pub end: &'a [i64],
    /// Rows of the table.
    pub number: &'a [i64],
}

/// A row of the table.
pub type Row = [u8; ROW_BYTES];

fn field(row: &Row, at: usize) -> i64 {
    row[at..].first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes))
}

/// The row of the piece that holds bytes [begin, end) whole and is not dropped, and its number.
#[must_use]
pub fn find<'a>(rows: &'a [u8], parts: &[Part<'_>], begin: i64, end: i64) -> Option<(i64, &'a Row)> {
    parts.iter().find_map(|part| {
        let number = *part.number.get(part.end.partition_point(|&reached| reached <= begin))?;
        let first = usize::try_from(number).ok()?.checked_mul(ROW_BYTES)?;
        let row = rows.get(first..)?.first_chunk::<ROW_BYTES>()?;
        let holds = field(row, BEGIN) <= begin && end <= field(row, END) && row[ALIVE] == 1;
        holds.then_some((number, row))
    })
}

/// Bytes of a piece, and where they go.
pub struct Wanted<'a> {
    /// The file of its pack.
    pub path: &'a str,
    /// The pack's number: pieces are read pack after pack.
    pub pack: i64,
    /// The pack's size.
    pub pack_bytes: u64,
    /// Filled to its end.
    pub out: &'a mut [u8],
    /// Whether what was read is not what was written.
    pub is_damaged: bool,
    position: u64,
    piece_bytes: u64,
    skip: u64,
    checksum: u32,
    is_in_blocks: bool,
}

impl<'a> Wanted<'a> {
    /// Bytes of a row's piece from place `begin` on; None if they do not lie in it. The pack is yet to be named.
    #[must_use]
    pub fn of(row: &Row, begin: i64, out: &'a mut [u8]) -> Option<Self> {
        let piece_bytes = u64::try_from(field(row, END).checked_sub(field(row, BEGIN))?).ok()?;
        let skip = u64::try_from(begin.checked_sub(field(row, BEGIN))?).ok()?;
        skip.checked_add(out.len() as u64).filter(|end| *end <= piece_bytes && !out.is_empty())?;
        Some(Self {
            path: "",
            pack: field(row, PACK),
            pack_bytes: 0,
            out,
            is_damaged: false,
            position: u64::try_from(field(row, POSITION)).ok()?,
            piece_bytes,
            skip,
            checksum: row[CHECKSUM..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)),
            is_in_blocks: row[IN_BLOCKS] == 1 && piece_bytes > BLOCK_BYTES,
        })
    }

    fn end(&self) -> u64 {
        self.skip + self.out.len() as u64
    }

    /// Reads it with the rest of the blocks that it begins and ends in, and compares the checksums of all of them.
    fn read(&mut self, file: &File, scratch: &mut Vec<u8>) -> io::Result<()> {
        if !self.is_in_blocks {
            let sum = self.checksum.to_le_bytes();
            return self.read_blocks(file, 0..self.piece_bytes, self.piece_bytes, &[sum], scratch);
        }
        let (first, last) = (self.skip / BLOCK_BYTES, (self.end() - 1) / BLOCK_BYTES);
        let mut sums = vec![[0; SUM_BYTES]; (last + 1 - first) as usize];
        file.read_exact_at(sums.as_flattened_mut(), self.position + self.piece_bytes + first * SUM_BYTES as u64)?;
        for (blocks, sums) in (first..=last).step_by(TOGETHER).zip(sums.chunks(TOGETHER)) {
            let end = ((blocks + sums.len() as u64) * BLOCK_BYTES).min(self.piece_bytes);
            self.read_blocks(file, blocks * BLOCK_BYTES..end, BLOCK_BYTES, sums, scratch)?;
        }
        Ok(())
    }

    /// Reads what is wanted of bytes of the piece, blocks with a checksum each.
    fn read_blocks(
        &mut self,
        file: &File,
        bytes: Range<u64>,
        block_bytes: u64,
        sums: &[[u8; SUM_BYTES]],
        scratch: &mut Vec<u8>,
    ) -> io::Result<()> {
        let (low, high) = (bytes.start.max(self.skip), bytes.end.min(self.end()));
        let mine = (low - self.skip) as usize..(high - self.skip) as usize;
        let is_whole = (low, high) == (bytes.start, bytes.end);
        let read = if is_whole {
            &mut self.out[mine.clone()]
        } else {
            scratch.resize((bytes.end - bytes.start) as usize, 0);
            scratch.as_mut_slice()
        };
        file.read_exact_at(read, self.position + bytes.start)?;
        let mut blocks = read.chunks(block_bytes as usize).zip(sums);
        self.is_damaged |= blocks.any(|(block, sum)| crc32c::sum(block) != u32::from_le_bytes(*sum));
        if !is_whole {
            self.out[mine].copy_from_slice(&scratch[(low - bytes.start) as usize..(high - bytes.start) as usize]);
        }
        Ok(())
    }
}

/// Reads bytes of pieces, in parallel, in the order of packs and of places in them, and notes which are damaged.
///
/// # Errors
/// The first pack that is missing, cannot be read, or has another size.
pub fn read(wanted: &mut [Wanted<'_>], pieces_per_task: usize) -> Result<(), FileError> {
    let mut turn: Vec<_> = wanted.iter_mut().collect();
    turn.sort_unstable_by_key(|one| (one.pack, one.position + one.skip));
    let tasks = turn.par_chunks_mut(pieces_per_task.max(1));
    let failed = tasks.map(|some| read_in_turn(some.iter_mut().map(|one| &mut **one))).find_map_first(Result::err);
    failed.map_or(Ok(()), Err)
}

/// The same in the calling thread, in the order in which they come.
///
/// # Errors
/// As [`read`].
pub fn read_in_turn<'a, 'b: 'a>(wanted: impl Iterator<Item = &'a mut Wanted<'b>>) -> Result<(), FileError> {
    let (mut open, mut scratch): (Option<(&str, File)>, _) = (None, Vec::new());
    for one in wanted {
        let path = Path::new(one.path);
        let file = match open.take() {
            Some((name, file)) if name == one.path => file,
            _ => Listed { size: one.pack_bytes, stamp: None }.open(path)?,
        };
        one.read(&file, &mut scratch).map_err(|error| FileError::new(path, &error))?;
        open = Some((one.path, file));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(begin: i64, end: i64, position: i64, checksum: u32, flags: [u8; 2]) -> Row {
        let mut made: Vec<u8> = [begin, end, 7, position].iter().flat_map(|field| field.to_le_bytes()).collect();
        made.extend(checksum.to_le_bytes());
        made.extend(flags);
        made.extend([0; 2]);
        made.try_into().unwrap()
    }

    #[test]
    fn finds_ranges_within_one_piece_of_any_part() {
        let rows = [row(30, 40, 0, 0, [0, 1]), row(10, 20, 500, 0, [0, 1]), row(40, 50, 0, 0, [0, 0])].concat();
        let parts = [Part { end: &[20, 40], number: &[1, 0] }, Part { end: &[50], number: &[2] }];
        let at = |begin, end| find(&rows, &parts, begin, end).map(|(number, _)| number);
        assert_eq!(at(12, 20), Some(1));
        assert_eq!(at(30, 31), Some(0));
        assert_eq!(at(12, 21), None); // goes on in another piece
        assert_eq!(at(5, 12), None);
        assert_eq!(at(42, 45), None); // dropped
        assert_eq!(at(60, 61), None);
        assert_eq!(find(&rows[..50], &parts, 12, 20), None);
    }

    #[test]
    fn wants_only_what_lies_in_a_piece() {
        let (row, mut out) = (row(10, 20, 500, 0, [0, 1]), [0; 4]);
        for (begin, fits) in [(10, true), (16, true), (17, false), (9, false), (i64::MAX, false)] {
            assert_eq!(Wanted::of(&row, begin, &mut out).is_some(), fits, "{begin}");
        }
        assert!(Wanted::of(&row, 12, &mut []).is_none());
        assert!(Wanted::of(&[0xFF; ROW_BYTES], 12, &mut out).is_none());
    }

    /// A piece of 40 blocks and a half, at position 100 of a pack that holds nothing else.
    fn pack(name: &str, flip: Option<usize>) -> (String, Vec<u8>, Row) {
        let piece: Vec<u8> = (0..BLOCK_BYTES as usize * 81 / 2).map(|i| ((i * 31) >> 3) as u8).collect();
        let sums = piece.chunks(BLOCK_BYTES as usize).flat_map(|block| crc32c::sum(block).to_le_bytes());
        let mut content: Vec<u8> = [0; 100].into_iter().chain(piece.iter().copied()).chain(sums).collect();
        flip.into_iter().for_each(|at| content[at] ^= 4);
        let path = std::env::temp_dir().join(format!("penstock-kept-{name}-{}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        let end = piece.len() as i64;
        let row = row(0, end, 100, crc32c::sum(&piece), [1, 1]);
        (path.to_str().unwrap().to_owned(), piece, row)
    }

    /// Whether bytes of a piece are said to be damaged.
    fn is_damaged(path: &str, row: &Row, piece: &[u8], range: Range<usize>) -> bool {
        let mut out = vec![0; range.len()];
        let mut wanted = Wanted::of(row, range.start as i64, &mut out).unwrap();
        (wanted.path, wanted.pack_bytes) = (path, std::fs::metadata(path).unwrap().len());
        read_in_turn(std::iter::once(&mut wanted)).unwrap();
        let is_damaged = wanted.is_damaged;
        assert!(is_damaged || out == piece[range]);
        is_damaged
    }

    #[test]
    fn a_flipped_bit_is_seen_by_whoever_reads_its_block() {
        let block = BLOCK_BYTES as usize;
        let (path, piece, row) = pack("block", Some(100 + block + 5));
        assert!(is_damaged(&path, &row, &piece, 0..piece.len()));
        assert!(is_damaged(&path, &row, &piece, block + 9..block + 12));
        assert!(is_damaged(&path, &row, &piece, block - 1..block + 1));
        assert!(!is_damaged(&path, &row, &piece, 0..block));
        assert!(!is_damaged(&path, &row, &piece, block * 2..piece.len()));
        assert!(is_damaged(&path, &row, &piece, block..block * 2));
        let mut alone = row;
        alone[IN_BLOCKS] = 0; // as an earlier version wrote it
        assert!(is_damaged(&path, &alone, &piece, 3..5));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn any_part_of_a_whole_piece_is_read() {
        let (path, piece, row) = pack("whole", None);
        let mut alone = row;
        alone[IN_BLOCKS] = 0;
        for row in [row, alone] {
            for range in [0..piece.len(), 0..1, 8_191..8_193, 8_192..16_384, 1..piece.len() - 1, 9_000..300_000] {
                assert!(!is_damaged(&path, &row, &piece, range));
            }
        }
        std::fs::remove_file(path).unwrap();
    }
}
