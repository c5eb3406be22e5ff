//! Rows are joined, and cut every so many tokens.

use super::{Piece, Plan, as_i64, groups, tokens_of};

/// Neighbouring rows that are joined, and where they are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Its rows.
    pub rows: usize,
    /// Tokens of its first row that an earlier call used.
    pub skip: usize,
    /// Whether a last, shorter sequence takes what is left.
    pub is_last: bool,
}

/// Joins the rows of each group and cuts them every `length` tokens. Returns besides, for each group, the rows that are used up and the
/// tokens of the next one that are: what is left is given again, with the rows that follow it.
#[must_use]
pub fn concat(lengths: &[i64], all: &[Group], length: usize, truncate: bool) -> (Plan, Vec<(usize, usize)>) {
    let (mut plan, mut used) = (Plan::new(), Vec::with_capacity(all.len()));
    let group_rows: Vec<usize> = all.iter().map(|group| group.rows).collect();
    for (group, rows) in all.iter().zip(groups(&group_rows, lengths.len())) {
        let before = plan.edges.len();
        let (first, limit) = (rows.start, truncate.then_some(length));
        let mut cut = (first, group.skip);
        let mut room = length;
        for row in rows.clone() {
            let tokens = tokens_of(lengths, row, limit);
            let mut start = if row == first { group.skip } else { 0 };
            while start < tokens {
                let piece = Piece { row, start, length: room.min(tokens - start) };
                plan.push(piece);
                start += piece.length;
                room -= piece.length;
                if room == 0 {
                    plan.end_sequence();
                    (cut, room) = ((row, start), length);
                }
            }
        }
        if group.is_last && room < length {
            plan.end_sequence();
        }
        plan.drop_open();
        let (mut row, mut skip) = if group.is_last { (rows.end, 0) } else { cut };
        while row < rows.end && tokens_of(lengths, row, limit) <= skip {
            (row, skip) = (row + 1, 0);
        }
        used.push((row - first, skip));
        plan.sequences.push(as_i64(plan.edges.len() - before));
    }
    (plan, used)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn group(rows: usize, skip: usize, is_last: bool) -> Group {
        Group { rows, skip, is_last }
    }

    #[test]
    fn what_fills_no_sequence_is_carried() {
        let (plan, used) = concat(&[3, 0, 5, 2], &[group(4, 1, false)], 4, false);
        assert_eq!((plan.rows, plan.starts, plan.lengths), (vec![0, 2, 2, 3], vec![1, 0, 2, 0], vec![2, 2, 3, 1]));
        assert_eq!((plan.edges, used), (vec![0, 2, 4], vec![(3, 1)]));
        let (plan, used) = concat(&[3], &[group(1, 0, false)], 4, false);
        assert_eq!((plan.edges, used), (vec![0], vec![(0, 0)]));
    }

    #[test]
    fn the_last_group_is_used_up() {
        let (plan, used) = concat(&[3, 9], &[group(1, 0, true), group(1, 0, true)], 4, true);
        assert_eq!((plan.lengths, plan.sequences, used), (vec![3, 4], vec![1, 1], vec![(1, 0), (1, 0)]));
    }

    #[test]
    fn empty_rows_behind_a_cut_are_used_up() {
        assert_eq!(concat(&[4, 0, 0, 1], &[group(4, 0, false)], 4, false).1, [(3, 0)]);
        assert_eq!(concat(&[0, 0], &[group(2, 0, false)], 4, false).1, [(2, 0)]);
    }
}
