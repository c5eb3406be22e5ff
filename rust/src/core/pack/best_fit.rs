//! Best fit decreasing: the longest row first, each into the sequence that it fills best.

use std::cmp::Reverse;
use std::ops::Range;

use super::rooms::Rooms;
use super::{Piece, Plan, as_i64, groups, tokens_of};

/// Packs each group of rows for itself. Rows longer than `length` are truncated, or split: all pieces but the last fill a sequence.
///
/// Sequences come in the order of their first rows, and the rows of a sequence in the order of the data. Empty rows are in none.
#[must_use]
pub fn best_fit(lengths: &[i64], group_rows: &[usize], length: usize, truncate: bool) -> Plan {
    let mut plan = Plan::new();
    for rows in groups(group_rows, lengths.len()) {
        let pieces = pieces_of(lengths, rows, length, truncate);
        let (sequence_of, sequences) = numbered(&assigned(&pieces, length));
        plan.sequences.push(as_i64(sequences));
        for piece in in_sequences(&pieces, &sequence_of, sequences, &mut plan) {
            plan.push(piece);
        }
    }
    plan
}

fn pieces_of(lengths: &[i64], rows: Range<usize>, length: usize, truncate: bool) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(rows.len());
    for row in rows {
        let tokens = tokens_of(lengths, row, truncate.then_some(length));
        for start in (0..tokens).step_by(length) {
            pieces.push(Piece { row, start, length: length.min(tokens - start) });
        }
    }
    pieces
}

/// The sequence of each piece, as numbers in the order in which sequences were begun.
fn assigned(pieces: &[Piece], length: usize) -> Vec<u32> {
    let mut longest_first: Vec<usize> = (0..pieces.len()).collect();
    longest_first.sort_by_key(|&piece| Reverse(pieces[piece].length));
    let (mut rooms, mut begun) = (Rooms::new(length), 0);
    let mut sequence_of = vec![0; pieces.len()];
    for piece in longest_first {
        let wanted = pieces[piece].length;
        let (room, sequence) = rooms.take(wanted).unwrap_or_else(|| {
            begun += 1;
            (length, begun - 1)
        });
        sequence_of[piece] = sequence;
        if room > wanted {
            rooms.put(room - wanted, sequence);
        }
    }
    sequence_of
}

/// The same sequences, numbered in the order of their first pieces, and how many there are.
fn numbered(sequence_of: &[u32]) -> (Vec<usize>, usize) {
    let mut number_of = vec![None; sequence_of.iter().max().map_or(0, |&last| last as usize + 1)];
    let mut met = 0;
    let numbers = sequence_of
        .iter()
        .map(|&sequence| {
            *number_of[sequence as usize].get_or_insert_with(|| {
                met += 1;
                met - 1
            })
        })
        .collect();
    (numbers, met)
}

/// The pieces in the order of their sequences, whose ends go to `plan`.
fn in_sequences(pieces: &[Piece], sequence_of: &[usize], sequences: usize, plan: &mut Plan) -> Vec<Piece> {
    let mut next = vec![0; sequences + 1];
    for &sequence in sequence_of {
        next[sequence + 1] += 1;
    }
    let before = plan.rows.len();
    for sequence in 0..sequences {
        next[sequence + 1] += next[sequence];
        plan.edges.push(as_i64(before + next[sequence + 1]));
    }
    let mut sorted = pieces.to_vec();
    for (piece, &sequence) in pieces.iter().zip(sequence_of) {
        sorted[next[sequence]] = *piece;
        next[sequence] += 1;
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_goes_first_where_it_fits_best() {
        let plan = best_fit(&[3, 0, 7, 5, 5, 2], &[6], 10, false);
        assert_eq!(plan.sequences, [2 + 1]);
        assert_eq!(plan.rows, [0, 2, 3, 4, 5]);
        assert_eq!(plan.edges, [0, 2, 4, 5]);
    }

    #[test]
    fn long_rows_are_split_or_truncated() {
        let split = best_fit(&[25, 5], &[2], 10, false);
        assert_eq!((split.rows, split.starts), (vec![0, 0, 0, 1], vec![0, 10, 20, 0]));
        assert_eq!((split.lengths, split.edges), (vec![10, 10, 5, 5], vec![0, 1, 2, 4]));
        let truncated = best_fit(&[25, 5], &[2], 10, true);
        assert_eq!((truncated.lengths, truncated.edges), (vec![10, 5], vec![0, 1, 2]));
    }

    #[test]
    fn groups_share_no_sequence() {
        let plan = best_fit(&[1, 1, 0, 1], &[2, 0, 1, 1], 4, false);
        assert_eq!((plan.sequences, plan.edges), (vec![1, 0, 0, 1], vec![0, 2, 3]));
    }
}
