//! What a cache keeps: which pieces hold ranges whole, so that all of them can be read at once.

/// Bytes of a row of the table, and where in it the fields lie: `EXTENT` of `storage/cache_extents.py`.
pub const ROW_BYTES: usize = 40;
const BEGIN: usize = 0;
const END: usize = 8;
const PACK: usize = 16;
const POSITION: usize = 24;
const CHECKED: usize = 36;
const ALIVE: usize = 37;

/// Pieces in the order of their places, which do not overlap: where each ends, and its number in the table.
pub struct Part<'a> {
    /// Ends, ascending.
    pub end: &'a [i64],
    /// Rows of the table.
    pub number: &'a [i64],
}

/// Where a range lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The piece, a row of the table.
    pub number: i64,
    /// Its pack.
    pub pack: i64,
    /// Where in the pack the range begins.
    pub position: i64,
}

/// The piece that holds bytes [begin, end) whole, is not dropped, and whose checksum this process has compared.
#[must_use]
pub fn find(rows: &[u8], parts: &[Part<'_>], begin: i64, end: i64) -> Option<Place> {
    parts.iter().find_map(|part| {
        let number = *part.number.get(part.end.partition_point(|&reached| reached <= begin))?;
        let first = usize::try_from(number).ok()?.checked_mul(ROW_BYTES)?;
        let row = rows.get(first..)?.first_chunk::<ROW_BYTES>()?;
        let field = |at: usize| row[at..].first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes));
        let holds = field(BEGIN) <= begin && end <= field(END) && row[CHECKED] == 1 && row[ALIVE] == 1;
        holds.then(|| Place { number, pack: field(PACK), position: field(POSITION) + (begin - field(BEGIN)) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(begin: i64, end: i64, position: i64, flags: [u8; 2]) -> Vec<u8> {
        let mut made: Vec<u8> = [begin, end, 7, position].iter().flat_map(|field| field.to_le_bytes()).collect();
        made.extend([0; 4]);
        made.extend(flags);
        made.extend([0; 2]);
        made
    }

    #[test]
    fn finds_ranges_within_one_piece_of_any_part() {
        let rows = [row(30, 40, 0, [1, 1]), row(10, 20, 500, [1, 1]), row(20, 30, 600, [0, 1]), row(40, 50, 0, [1, 0])]
            .concat();
        let parts = [Part { end: &[20, 40], number: &[1, 0] }, Part { end: &[30, 50], number: &[2, 3] }];
        let at = |begin, end| find(&rows, &parts, begin, end).map(|place| (place.number, place.position));
        assert_eq!(at(12, 20), Some((1, 502)));
        assert_eq!(at(30, 31), Some((0, 0)));
        assert_eq!(at(12, 21), None); // goes on in another piece
        assert_eq!(at(5, 12), None);
        assert_eq!(at(22, 25), None); // not compared yet
        assert_eq!(at(42, 45), None); // dropped
        assert_eq!(at(60, 61), None);
        assert_eq!(find(&rows[..50], &parts, 12, 20), None);
    }
}
