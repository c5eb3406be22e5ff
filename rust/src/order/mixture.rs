//! Which source gives each row of a lane, so that no source is ever more than a row away from its weight.
//!
//! The sequence of sources is Tijdeman's ("The chairman assignment problem", 1980): of the sources that are behind, the next row goes to
//! the one that could wait least. It repeats after as many rows as the quotas' sum, so that any place is a look-up. Each lane
//! begins at another place of it, at equal distances, where it may: a lane counts from its own first row.

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
    /// Where each lane begins.
    phases: Vec<u64>,
}

impl Mixture {
    /// A mixture in which source c gives `quotas[c]` of as many rows as these are together, for so many lanes.
    ///
    /// # Errors
    /// If there are no quotas or too many, one of them is 0, or their sum is above [`LONGEST_PERIOD`].
    pub fn new(quotas: Vec<u64>, lanes: usize) -> Result<Self, String> {
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
        let phases = phases(&quotas, period, &word, lanes);
        Ok(Self { quotas, period, word, ordinal, rows, phases })
    }

    /// Number of sources.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.quotas.len()
    }

    /// Number of lanes.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.phases.len()
    }

    /// Rows of a source among the first `rows` of the sequence.
    fn before(&self, source: usize, rows: u64) -> u64 {
        let rest = (rows % self.period) as u32;
        rows / self.period * self.quotas[source] + self.rows[source].partition_point(|&row| row < rest) as u64
    }

    /// Rows of a source among the first `rows` of a lane.
    #[must_use]
    pub fn count(&self, source: usize, lane: usize, rows: u64) -> u64 {
        let phase = self.phases[lane];
        self.before(source, phase + rows) - self.before(source, phase)
    }

    /// The row of a lane that a source gives as its `ordinal`-th, counted from 0.
    #[must_use]
    pub fn row(&self, source: usize, lane: usize, ordinal: u64) -> u64 {
        let phase = self.phases[lane];
        let (period, within) = {
            let number = ordinal + self.before(source, phase);
            (number / self.quotas[source], (number % self.quotas[source]) as usize)
        };
        period * self.period + u64::from(self.rows[source][within]) - phase
    }

    /// Writes, for rows [first, first + sources.len()) of a lane, the source of each and how many of its rows come before in the lane.
    pub fn rows(&self, lane: usize, first: u64, sources: &mut [i64], ordinals: &mut [i64]) {
        let phase = self.phases[lane];
        let before: Vec<u64> = (0..self.sources()).map(|source| self.before(source, phase)).collect();
        for (row, (source, ordinal)) in (first + phase..).zip(sources.iter_mut().zip(ordinals)) {
            let within = (row % self.period) as usize;
            let which = usize::from(self.word[within]);
            *source = which as i64;
            *ordinal = (row / self.period * self.quotas[which] + u64::from(self.ordinal[within]) - before[which]) as i64;
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

/// Where each lane begins: at equal distances, or at the next place from which no source gets more than a row away.
fn phases(quotas: &[u64], period: u64, word: &[u16], lanes: usize) -> Vec<u64> {
    let ahead = |visit: &mut dyn FnMut(usize, &[i64])| {
        let mut ahead = vec![0_i64; quotas.len()]; // rows that a source had, less those that it should have had, × period
        for (row, &source) in word.iter().enumerate() {
            visit(row, &ahead);
            ahead.iter_mut().zip(quotas).for_each(|(ahead, &quota)| *ahead -= quota as i64);
            ahead[usize::from(source)] += period as i64;
        }
    };
    let (mut least, mut most) = (vec![0_i64; quotas.len()], vec![0_i64; quotas.len()]);
    ahead(&mut |_, now| {
        for ((least, most), &now) in least.iter_mut().zip(&mut most).zip(now) {
            (*least, *most) = ((*least).min(now), (*most).max(now));
        }
    });
    let mut places = Vec::new();
    ahead(&mut |row, now| {
        let spans = least.iter().zip(&most).zip(now);
        if spans.into_iter().all(|((&least, &most), &now)| (most - now).max(now - least) <= period as i64) {
            places.push(row as u64);
        }
    });
    (0..lanes as u64)
        .map(|lane| {
            let wanted = (u128::from(lane) * u128::from(period) / lanes as u128) as u64;
            places[places.partition_point(|&place| place < wanted) % places.len()]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn away(counts: &[u64], quotas: &[u64], rows: u64) -> bool {
        let period: u64 = quotas.iter().sum();
        counts.iter().zip(quotas).any(|(&count, &quota)| (count * period).abs_diff(quota * rows) > period)
    }

    proptest! {
        #[test]
        fn no_source_is_ever_more_than_a_row_away(
            quotas in prop::collection::vec(1_u64..60, 1..9), lanes in 1_usize..20, first in 0_u64..500,
        ) {
            let mixture = Mixture::new(quotas.clone(), lanes).unwrap();
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
                    prop_assert!(!away(&counts, &quotas, row + 1), "{:?} of {} rows", counts, row + 1);
                }
                let (mut again, mut numbers) = (vec![0; 100], vec![0; 100]);
                mixture.rows(lane, first, &mut again, &mut numbers);
                prop_assert_eq!(&again, &sources[first as usize..first as usize + 100]);
                prop_assert_eq!(&numbers, &ordinals[first as usize..first as usize + 100]);
            }
        }
    }

    #[test]
    fn a_step_of_two_sources_is_exact_over_all_lanes() {
        for (quotas, lanes) in [(vec![7, 3], 64), (vec![1, 1], 8), (vec![5, 8], 13), (vec![1, 99], 64), (vec![333, 667], 48)] {
            let mixture = Mixture::new(quotas.clone(), lanes).unwrap();
            for row in 0..2_000 {
                let counts: Vec<u64> = (0..2)
                    .map(|source| {
                        (0..lanes).map(|lane| mixture.count(source, lane, row + 1) - mixture.count(source, lane, row)).sum()
                    })
                    .collect();
                assert!(!away(&counts, &quotas, lanes as u64), "{counts:?} for {quotas:?} on {lanes} lanes");
            }
        }
    }
}
