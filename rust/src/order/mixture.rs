//! Which source gives each row of a lane.
//!
//! There is one sequence of sources, Tijdeman's ("The chairman assignment problem", 1980): of the sources that are behind, the next row goes
//! to the one that could wait least. So among its first rows, however many, no source is more than 1 - 1 / (2n - 2) rows away from its weight,
//! n sources. It repeats after as many rows as the quotas' sum, so that any place is a look-up.
//!
//! Lane l begins at place l × rows_per_lane, so that the rows of a step, lane after lane, are neighbours in the sequence. Rows of a lane and rows of a step
//! are runs of one sequence, in which a source is less than two rows away from its weight: one at most with two sources.

/// Quotas up to this sum make a mixture: so many rows are one period, and are kept as tables.
pub const LONGEST_PERIOD: u64 = 1 << 20;

/// A mixture of sources, in every lane by itself.
#[derive(Clone, Debug)]
pub struct Mixture {
    quotas: Vec<u64>,
    period: u64,
    /// The source of each row of the period.
    word: Vec<u16>,
    /// How many rows of its source come before it in the period.
    ordinal: Vec<u32>,
    /// The rows of each source in the period.
    rows: Vec<Vec<u32>>,
    lanes: u64,
    rows_per_lane: u64,
}

impl Mixture {
    /// A mixture in which source c gives `quotas[c]` of as many rows as these are together, for so many lanes.
    ///
    /// # Errors
    /// If there are no quotas or too many, one of them is 0, or their sum is above [`LONGEST_PERIOD`].
    pub fn new(quotas: Vec<u64>, lanes: u64, rows_per_lane: u64) -> Result<Self, String> {
        let period = quotas.iter().try_fold(0_u64, |sum, &quota| sum.checked_add(quota)).unwrap_or(u64::MAX);
        if quotas.is_empty() || quotas.len() > usize::from(u16::MAX) || quotas.contains(&0) || period > LONGEST_PERIOD {
            return Err(format!("{} quotas, {period} together, instead of some above 0", quotas.len()));
        }
        let word = sequence(&quotas, period);
        let mut rows = vec![Vec::new(); quotas.len()];
        let mut ordinal = Vec::with_capacity(word.len());
        for (row, &source) in (0_u32..).zip(&word) {
            let mine = &mut rows[usize::from(source)];
            ordinal.push(mine.len() as u32);
            mine.push(row);
        }
        Ok(Self { quotas, period, word, ordinal, rows, lanes, rows_per_lane })
    }

    /// Number of sources.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.quotas.len()
    }

    /// Number of lanes.
    #[must_use]
    pub fn lanes(&self) -> u64 {
        self.lanes
    }

    fn phase(&self, lane: u64) -> u64 {
        lane * self.rows_per_lane % self.period
    }

    /// Rows of a source among the first `rows` of the sequence.
    fn before(&self, source: usize, rows: u64) -> u64 {
        let rest = (rows % self.period) as u32;
        rows / self.period * self.quotas[source] + self.rows[source].partition_point(|&row| row < rest) as u64
    }

    /// Rows of a source among the first `rows` of a lane.
    #[must_use]
    pub fn count(&self, source: usize, lane: u64, rows: u64) -> u64 {
        let phase = self.phase(lane);
        self.before(source, phase + rows) - self.before(source, phase)
    }

    /// The row of a lane that a source gives as its `ordinal`-th, counted from 0.
    #[must_use]
    pub fn row(&self, source: usize, lane: u64, ordinal: u64) -> u64 {
        let phase = self.phase(lane);
        let (period, within) = {
            let number = ordinal + self.before(source, phase);
            (number / self.quotas[source], (number % self.quotas[source]) as usize)
        };
        period * self.period + u64::from(self.rows[source][within]) - phase
    }

    /// Writes, for rows [first, first + sources.len()) of a lane, the source of each and how many of its rows come before in the lane.
    pub fn rows(&self, lane: u64, first: u64, sources: &mut [i64], ordinals: &mut [i64]) {
        let phase = self.phase(lane);
        let before: Vec<u64> = (0..self.sources()).map(|source| self.before(source, phase)).collect();
        for (row, (source, ordinal)) in (first + phase..).zip(sources.iter_mut().zip(ordinals)) {
            let within = (row % self.period) as usize;
            let which = usize::from(self.word[within]);
            *source = which as i64;
            *ordinal =
                (row / self.period * self.quotas[which] + u64::from(self.ordinal[within]) - before[which]) as i64;
        }
    }
}

/// The source of each row of a period.
fn sequence(quotas: &[u64], period: u64) -> Vec<u16> {
    if quotas.len() == 1 {
        return vec![0; period as usize];
    }
    let (period, spread) = (period as i128, 2 * quotas.len() as i128 - 2);
    let mut behind = vec![0_i128; quotas.len()]; // rows that a source should have had, less those that it had, × period
    (0..period)
        .map(|_| {
            let mut next: Option<(usize, i128, i128)> = None;
            for (source, &quota) in quotas.iter().enumerate() {
                behind[source] += i128::from(quota);
                if spread * behind[source] < period {
                    continue;
                }
                let patience = period * (spread - 1) - spread * behind[source];
                if next.is_none_or(|(_, least, of)| patience * of < least * i128::from(quota)) {
                    next = Some((source, patience, i128::from(quota)));
                }
            }
            let source = next.map_or(0, |(source, ..)| source); // one is always behind: they are so by 0 together, and by one row now
            behind[source] -= period;
            source as u16
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
            let mixture = Mixture::new(quotas.clone(), lanes, rows_per_lane).unwrap();
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
    }

    #[test]
    fn what_is_no_mixture_is_refused() {
        for quotas in [vec![], vec![1, 0], vec![LONGEST_PERIOD, 1], vec![u64::MAX, 2]] {
            assert!(Mixture::new(quotas, 4, 1).is_err());
        }
    }
}
