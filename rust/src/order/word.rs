//! One period of Tijdeman's sequence of sources ("The chairman assignment problem", 1980).
//!
//! Of the sources that are behind, the next row goes to the one that could wait least. So among its first rows, however many, no source is
//! more than 1 - 1 / (2n - 2) rows away from its weight, n sources. It repeats after as many rows as the quotas' sum, so that any place is a look-up.

/// Quotas up to this sum make a word: so many rows are one period, and are kept as tables.
pub const LONGEST_PERIOD: u64 = 1 << 20;

/// The sequence of sources that belongs to quotas.
#[derive(Clone, Debug)]
pub struct Word {
    quotas: Vec<u64>,
    period: u64,
    /// The source of each row of the period.
    sources: Vec<u16>,
    /// The rows of each source in the period.
    rows: Vec<Vec<u32>>,
}

impl Word {
    /// The sequence in which source c gives `quotas[c]` of as many rows as these are together.
    ///
    /// # Errors
    /// If there are no quotas or too many, one of them is 0, or their sum is above [`LONGEST_PERIOD`].
    pub fn new(quotas: Vec<u64>) -> Result<Self, String> {
        let period = quotas.iter().try_fold(0_u64, |sum, &quota| sum.checked_add(quota)).unwrap_or(u64::MAX);
        if quotas.is_empty() || quotas.len() > usize::from(u16::MAX) || quotas.contains(&0) || period > LONGEST_PERIOD {
            return Err(format!("{} quotas, {period} together, instead of some above 0", quotas.len()));
        }
        let sources = sequence(&quotas, period);
        let mut rows = vec![Vec::new(); quotas.len()];
        (0_u32..).zip(&sources).for_each(|(row, &source)| rows[usize::from(source)].push(row));
        Ok(Self { quotas, period, sources, rows })
    }

    /// Number of sources.
    #[must_use]
    pub fn len(&self) -> usize {
        self.quotas.len()
    }

    /// Never: there is a source.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.quotas.is_empty()
    }

    /// The place at which a sequence is the same as at `row`.
    pub(super) fn within(&self, row: u64) -> u64 {
        row % self.period
    }

    /// Rows of a source among the first `rows` of the sequence.
    pub(super) fn before(&self, source: usize, rows: u64) -> u64 {
        let rest = (rows % self.period) as u32;
        rows / self.period * self.quotas[source] + self.rows[source].partition_point(|&row| row < rest) as u64
    }

    /// The row that a source gives as its `ordinal`-th, counted from 0.
    pub(super) fn row(&self, source: usize, ordinal: u64) -> u64 {
        let (period, within) = (ordinal / self.quotas[source], (ordinal % self.quotas[source]) as usize);
        period * self.period + u64::from(self.rows[source][within])
    }

    /// Writes the sources of rows from `first` on.
    pub(super) fn fill(&self, first: u64, out: &mut [u16]) {
        let (mut place, mut rest) = ((first % self.period) as usize, out);
        while !rest.is_empty() {
            let count = rest.len().min(self.sources.len() - place);
            let (part, left) = rest.split_at_mut(count);
            part.copy_from_slice(&self.sources[place..place + count]);
            (place, rest) = (0, left);
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
    use super::*;

    #[test]
    fn what_is_no_word_is_refused() {
        for quotas in [vec![], vec![1, 0], vec![LONGEST_PERIOD, 1], vec![u64::MAX, 2]] {
            assert!(Word::new(quotas).is_err());
        }
    }
}
