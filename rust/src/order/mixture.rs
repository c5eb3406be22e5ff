//! Which source gives each row of a lane.
//!
//! Lane l begins at place l × rows_per_lane of one sequence of sources (see `word`), so that the rows of a step, lane after lane, are neighbours in
//! it. Rows of a lane and rows of a step are runs of one sequence, in which a source is less than two rows away from its weight: one at most with
//! two sources.
//!
//! Where the weights change, at a row that is the same in all lanes, a piece with another sequence begins. Sources go on where they were.

use std::sync::Arc;

use super::word::Word;

/// A mixture of sources, in every lane by itself.
#[derive(Clone, Debug)]
pub struct Mixture {
    pieces: Vec<Piece>,
    sources: usize,
    lanes: u64,
    rows_per_lane: u64,
}

/// Rows of all lanes, from one on, that follow one sequence.
#[derive(Clone, Debug)]
struct Piece {
    first: u64,
    word: Arc<Word>,
    /// Rows of every source in every lane before the piece, lane after lane; empty for the first piece.
    before: Vec<u64>,
}

impl Mixture {
    /// A mixture for so many lanes, in pieces: the row of every lane from which on each holds, and its sequence.
    ///
    /// # Errors
    /// If there are no lanes, the first piece does not begin at 0 or a later one not behind it, or they are not of equally many sources.
    pub fn new(pieces: Vec<(u64, Arc<Word>)>, lanes: u64, rows_per_lane: u64) -> Result<Self, String> {
        let sources = pieces.first().map_or(0, |(_, word)| word.len());
        let begins: Vec<u64> = pieces.iter().map(|(first, _)| *first).collect();
        if lanes == 0
            || rows_per_lane == 0
            || begins.first() != Some(&0)
            || !begins.is_sorted_by(|one, next| one < next)
        {
            return Err(format!(
                "{lanes} lanes of {rows_per_lane} rows a step, pieces from {begins:?} on, instead of from 0, ascending"
            ));
        }
        if pieces.iter().any(|(_, word)| word.len() != sources) {
            return Err("pieces of different numbers of sources".to_owned());
        }
        let mut mixture = Self { pieces: Vec::new(), sources, lanes, rows_per_lane };
        for (first, word) in pieces {
            let before = if first == 0 { Vec::new() } else { mixture.counts_at(first) };
            mixture.pieces.push(Piece { first, word, before });
        }
        Ok(mixture)
    }

    fn counts_at(&self, row: u64) -> Vec<u64> {
        (0..self.lanes).flat_map(|lane| (0..self.sources).map(move |source| self.count(source, lane, row))).collect()
    }

    /// Number of sources.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.sources
    }

    /// Number of lanes.
    #[must_use]
    pub fn lanes(&self) -> u64 {
        self.lanes
    }

    /// Rows of a lane in a step.
    #[must_use]
    pub fn rows_per_lane(&self) -> u64 {
        self.rows_per_lane
    }

    /// Where in its piece's sequence a lane begins.
    fn phase(&self, piece: &Piece, lane: u64) -> u64 {
        piece.word.within(lane * self.rows_per_lane)
    }

    /// The last piece of which something holds, as it does of the first ones.
    fn last_piece(&self, holds: impl Fn(&Piece) -> bool) -> usize {
        self.pieces.partition_point(holds).max(1) - 1
    }

    /// Rows of a source in a lane before a piece.
    fn before(&self, piece: &Piece, source: usize, lane: u64) -> u64 {
        piece.before.get(lane as usize * self.sources + source).copied().unwrap_or(0)
    }

    /// Rows of a source among the first `rows` of a lane.
    #[must_use]
    pub fn count(&self, source: usize, lane: u64, rows: u64) -> u64 {
        let piece = &self.pieces[self.last_piece(|piece| piece.first <= rows)];
        let phase = self.phase(piece, lane);
        let here = piece.word.before(source, phase + (rows - piece.first)) - piece.word.before(source, phase);
        self.before(piece, source, lane) + here
    }

    /// The row of a lane that a source gives as its `ordinal`-th, counted from 0.
    #[must_use]
    pub fn row(&self, source: usize, lane: u64, ordinal: u64) -> u64 {
        let piece = &self.pieces[self.last_piece(|piece| self.before(piece, source, lane) <= ordinal)];
        let phase = self.phase(piece, lane);
        let here = ordinal - self.before(piece, source, lane) + piece.word.before(source, phase);
        piece.first + piece.word.row(source, here) - phase
    }

    /// Writes the sources of rows from `first` on of a lane.
    pub fn fill(&self, lane: u64, first: u64, out: &mut [u16]) {
        let (mut row, mut rest) = (first, out);
        while !rest.is_empty() {
            let number = self.last_piece(|piece| piece.first <= row);
            let (piece, end) = (&self.pieces[number], self.pieces.get(number + 1).map_or(u64::MAX, |next| next.first));
            let (part, left) = rest.split_at_mut(usize::try_from(end - row).unwrap_or(usize::MAX).min(rest.len()));
            piece.word.fill(self.phase(piece, lane) + (row - piece.first), part);
            row += part.len() as u64;
            rest = left;
        }
    }

    /// Writes, for rows [first, first + sources.len()) of a lane, the source of each and how many of its rows come before in the lane.
    pub fn rows(&self, lane: u64, first: u64, sources: &mut [i64], ordinals: &mut [i64]) {
        let mut word = vec![0; sources.len()];
        self.fill(lane, first, &mut word);
        let mut next: Vec<Option<u64>> = vec![None; self.sources];
        for (which, (source, ordinal)) in
            word.iter().map(|&which| usize::from(which)).zip(sources.iter_mut().zip(ordinals))
        {
            let number = next[which].unwrap_or_else(|| self.count(which, lane, first));
            (*source, *ordinal) = (which as i64, number as i64);
            next[which] = Some(number + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn word(quotas: &[u64]) -> Arc<Word> {
        Arc::new(Word::new(quotas.to_vec()).unwrap())
    }

    /// The most that a source is away from its weight, in rows × the period.
    fn away(counts: &[u64], quotas: &[u64], rows: u64) -> u64 {
        let period: u64 = quotas.iter().sum();
        counts.iter().zip(quotas).map(|(&count, &quota)| (count * period).abs_diff(quota * rows)).max().unwrap()
    }

    proptest! {
        #[test]
        fn lanes_and_steps_keep_the_weights(
            quotas in prop::collection::vec(1_u64..60, 1..9), lanes in 1_u64..20, rows_per_lane in 1_u64..5, first in 0_u64..500,
        ) {
            let mixture = Mixture::new(vec![(0, word(&quotas))], lanes, rows_per_lane).unwrap();
            let (period, n): (u64, u64) = (quotas.iter().sum(), quotas.len() as u64);
            let most = if n == 1 { 0 } else { period * (2 * n - 3) / (n - 1) }; // twice 1 - 1 / (2n - 2)
            let mut steps = vec![vec![0_u64; quotas.len()]; 700 / rows_per_lane as usize];
            for lane in 0..lanes {
                let (mut sources, mut ordinals) = (vec![0; 700], vec![0; 700]);
                mixture.rows(lane, 0, &mut sources, &mut ordinals);
                let mut counts = vec![0_u64; quotas.len()];
                for (row, (&source, &ordinal)) in (0_u64..).zip(sources.iter().zip(&ordinals)) {
                    let source = source as usize;
                    prop_assert_eq!(ordinal as u64, counts[source]);
                    prop_assert_eq!(mixture.row(source, lane, ordinal as u64), row);
                    prop_assert_eq!(mixture.count(source, lane, row), counts[source]);
                    counts[source] += 1;
                    if let Some(step) = steps.get_mut((row / rows_per_lane) as usize) {
                        step[source] += 1;
                    }
                    prop_assert!(away(&counts, &quotas, row + 1) <= most, "{:?} of {} rows", counts, row + 1);
                }
                let (mut again, mut numbers) = (vec![0; 100], vec![0; 100]);
                mixture.rows(lane, first, &mut again, &mut numbers);
                prop_assert_eq!(&again, &sources[first as usize..first as usize + 100]);
                prop_assert_eq!(&numbers, &ordinals[first as usize..first as usize + 100]);
            }
            for step in steps {
                prop_assert!(away(&step, &quotas, lanes * rows_per_lane) <= most, "{:?} in a step", step);
            }
        }

        #[test]
        fn pieces_add_up(
            sizes in (1_usize..7, 1_u64..6, 1_u64..4), lengths in prop::collection::vec(1_u64..120, 0..4), seed in any::<u64>(),
        ) {
            let (sources, lanes, rows_per_lane) = sizes;
            let mut draws = crate::core::keys::Rng::new(seed);
            let mut begins = vec![0];
            lengths.iter().for_each(|length| begins.push(begins[begins.len() - 1] + length));
            let quotas: Vec<Vec<u64>> =
                begins.iter().map(|_| (0..sources).map(|_| 1 + draws.below(30)).collect()).collect();
            let words = begins.iter().copied().zip(quotas.iter().map(|quotas| word(quotas))).collect();
            let mixture = Mixture::new(words, lanes, rows_per_lane).unwrap();
            let most = if sources == 1 { 0.0 } else { 2.0 - 1.0 / (sources as f64 - 1.0) };
            for lane in 0..lanes {
                let (mut which, mut ordinals) = (vec![0; 500], vec![0; 500]);
                mixture.rows(lane, 0, &mut which, &mut ordinals);
                let (mut counts, mut wanted, mut piece) = (vec![0_u64; sources], vec![0.0; sources], 0);
                for (row, (&source, &ordinal)) in (0_u64..).zip(which.iter().zip(&ordinals)) {
                    piece += usize::from(begins.get(piece + 1) == Some(&row));
                    let source = source as usize;
                    prop_assert_eq!(ordinal as u64, counts[source]);
                    prop_assert_eq!(mixture.row(source, lane, ordinal as u64), row);
                    prop_assert_eq!(mixture.count(source, lane, row), counts[source]);
                    counts[source] += 1;
                    let total: u64 = quotas[piece].iter().sum();
                    for (source, (wanted, &count)) in wanted.iter_mut().zip(&counts).enumerate() {
                        *wanted += quotas[piece][source] as f64 / total as f64;
                        prop_assert!((count as f64 - *wanted).abs() <= most * (piece + 1) as f64 + 1e-6);
                    }
                }
                let first = draws.below(400);
                let (mut again, mut numbers) = (vec![0; 100], vec![0; 100]);
                mixture.rows(lane, first, &mut again, &mut numbers);
                prop_assert_eq!(&again, &which[first as usize..first as usize + 100]);
                prop_assert_eq!(&numbers, &ordinals[first as usize..first as usize + 100]);
            }
        }
    }

    #[test]
    fn what_is_no_mixture_is_refused() {
        let (two, three) = (word(&[1, 2]), word(&[1, 2, 3]));
        for pieces in [
            vec![],
            vec![(1, two.clone())],
            vec![(0, two.clone()), (0, two.clone())],
            vec![(0, two.clone()), (9, two.clone()), (8, two.clone())],
            vec![(0, two.clone()), (8, three)],
        ] {
            assert!(Mixture::new(pieces, 4, 1).is_err());
        }
        assert!(Mixture::new(vec![(0, two)], 0, 1).is_err());
    }
}
