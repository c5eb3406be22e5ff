//! Fills what a plan says: values of columns, and what says which token belongs to which document.

use rayon::ThreadPool;

use super::as_usize;
use crate::core::pool::find_first;

/// Bytes that one task of the pool writes, so that small batches stay on few threads.
const BYTES_PER_TASK: usize = 1 << 17;

/// Where the tokens of each sequence come from: see `Plan`.
#[derive(Debug, Clone, Copy)]
pub struct Sequences<'a> {
    /// The row of each segment.
    pub rows: &'a [i64],
    /// How many tokens of its row come before each segment.
    pub starts: &'a [i64],
    /// Tokens of each segment.
    pub lengths: &'a [i64],
    /// The first segment of each sequence, and the end of all.
    pub edges: &'a [i64],
    /// Tokens of each sequence, padding included.
    pub length: usize,
}

/// One array of (sequences, length) that is filled.
pub enum Output<'a> {
    /// A column's values, `width` bytes each; row i of the column is values `edges[i]` to `edges[i + 1]`.
    Values {
        /// The values of all rows.
        values: &'a [u8],
        /// Where each row begins, and where the last ends, in values.
        edges: &'a [i64],
        /// Bytes of one value.
        width: usize,
        /// The value that fills what is left, `width` bytes.
        padding: &'a [u8],
        /// The array's bytes.
        out: &'a mut [u8],
    },
    /// 1, 2, … for the segments of a sequence, 0 at padding.
    SegmentIds(&'a mut [i32]),
    /// 0, 1, 2, … in every segment, 0 at padding.
    PositionIds(&'a mut [i32]),
    /// 1 at tokens, 0 at padding.
    Mask(&'a mut [u8]),
}

/// Fills all outputs on the threads of a pool.
///
/// # Errors
/// If an output has another size, or a segment does not lie in its row, its values or its sequence; then nothing is written.
pub fn fill(sequences: Sequences<'_>, outputs: Vec<Output<'_>>, pool: Option<&ThreadPool>) -> Result<(), String> {
    sequences.check()?;
    let mut tasks = Vec::new();
    for output in outputs {
        sequences.check_output(&output)?;
        sequences.cut(output, &mut tasks);
    }
    find_first(pool, tasks, |_, (first, part)| {
        sequences.fill(first, part);
        None::<()>
    });
    Ok(())
}

impl<'a> Sequences<'a> {
    fn count(&self) -> usize {
        self.edges.len().saturating_sub(1)
    }

    fn check(&self) -> Result<(), String> {
        let segments = self.rows.len();
        if self.starts.len() != segments || self.lengths.len() != segments {
            return Err("rows, starts and lengths must be equally long".into());
        }
        let last = self.edges.last().copied().unwrap_or(-1);
        if self.edges.first() != Some(&0) || usize::try_from(last) != Ok(segments) || !self.edges.is_sorted() {
            return Err(format!("the edges of sequences must rise from 0 to {segments}"));
        }
        for sequence in 0..self.count() {
            let lengths = &self.lengths[self.segments(sequence)];
            let tokens =
                lengths.iter().try_fold(0_usize, |sum, &length| sum.checked_add(usize::try_from(length).ok()?));
            if tokens.is_none_or(|tokens| tokens > self.length) {
                return Err(format!("sequence {sequence} has no room for its segments"));
            }
        }
        Ok(())
    }

    fn check_output(&self, output: &Output<'_>) -> Result<(), String> {
        let (found, width) = match output {
            Output::Values { out, width, .. } => (out.len(), *width),
            Output::SegmentIds(out) | Output::PositionIds(out) => (out.len(), 1),
            Output::Mask(out) => (out.len(), 1),
        };
        if self.count().checked_mul(self.length).and_then(|values| values.checked_mul(width)) != Some(found) {
            return Err(format!(
                "{} sequences of {} tokens do not fill an output of {found}",
                self.count(),
                self.length
            ));
        }
        let Output::Values { values, edges, width, padding, .. } = output else { return Ok(()) };
        if padding.len() != *width {
            return Err(format!("a padding of {} bytes for values of {width}", padding.len()));
        }
        for (segment, ((&row, &start), &length)) in self.rows.iter().zip(self.starts).zip(self.lengths).enumerate() {
            if !is_inside(edges, row, start, length, values.len() / (*width).max(1)) {
                return Err(format!("segment {segment} does not lie in its row"));
            }
        }
        Ok(())
    }

    /// An output in parts for tasks, each with the number of its first sequence.
    fn cut(&self, output: Output<'a>, tasks: &mut Vec<(usize, Output<'a>)>) {
        let width = match &output {
            Output::Values { width, .. } => *width,
            Output::SegmentIds(_) | Output::PositionIds(_) => size_of::<i32>(),
            Output::Mask(_) => 1,
        };
        let row_bytes = self.length * width;
        if row_bytes == 0 {
            return;
        }
        let together = (BYTES_PER_TASK / row_bytes).max(1);
        let firsts = (0..).step_by(together);
        match output {
            Output::Values { values, edges, width, padding, out } => {
                let parts = out.chunks_mut(together * row_bytes);
                tasks.extend(firsts.zip(parts.map(|out| Output::Values { values, edges, width, padding, out })));
            }
            Output::SegmentIds(out) => {
                tasks.extend(firsts.zip(out.chunks_mut(together * self.length).map(Output::SegmentIds)));
            }
            Output::PositionIds(out) => {
                tasks.extend(firsts.zip(out.chunks_mut(together * self.length).map(Output::PositionIds)));
            }
            Output::Mask(out) => tasks.extend(firsts.zip(out.chunks_mut(together * self.length).map(Output::Mask))),
        }
    }

    /// Fills the sequences from number `first` on.
    fn fill(&self, first: usize, output: Output<'_>) {
        match output {
            Output::Values { values, edges, width, padding, out } => {
                for (sequence, out) in (first..).zip(out.chunks_exact_mut(self.length * width)) {
                    self.fill_values(sequence, values, edges, padding, out);
                }
            }
            Output::SegmentIds(out) => self.each_segment(first, out, 0, |number, out| {
                out.fill(i32::try_from(number + 1).unwrap_or(i32::MAX));
            }),
            Output::PositionIds(out) => self.each_segment(first, out, 0, |_, out| {
                out.iter_mut().zip(0..).for_each(|(out, position)| *out = position);
            }),
            Output::Mask(out) => self.each_segment(first, out, 0, |_, out| out.fill(1)),
        }
    }

    fn each_segment<T: Copy>(&self, first: usize, out: &mut [T], padding: T, put: impl Fn(usize, &mut [T])) {
        for (sequence, mut rest) in (first..).zip(out.chunks_exact_mut(self.length)) {
            for (number, &length) in self.lengths[self.segments(sequence)].iter().enumerate() {
                let (place, after) = rest.split_at_mut(as_usize(length));
                put(number, place);
                rest = after;
            }
            rest.fill(padding);
        }
    }

    fn fill_values(&self, sequence: usize, values: &[u8], edges: &[i64], padding: &[u8], out: &mut [u8]) {
        let (mut rest, width) = (out, padding.len());
        for segment in self.segments(sequence) {
            let start = (as_usize(edges[as_usize(self.rows[segment])]) + as_usize(self.starts[segment])) * width;
            let (place, after) = rest.split_at_mut(as_usize(self.lengths[segment]) * width);
            place.copy_from_slice(&values[start..start + place.len()]);
            rest = after;
        }
        repeat(padding, rest);
    }

    fn segments(&self, sequence: usize) -> std::ops::Range<usize> {
        as_usize(self.edges[sequence])..as_usize(self.edges[sequence + 1])
    }
}

/// Whether a segment lies in its row, and that among so many values.
fn is_inside(edges: &[i64], row: i64, start: i64, length: i64, values: usize) -> bool {
    let Ok(row) = usize::try_from(row) else { return false };
    let (Some(&first), Some(&end)) = (edges.get(row), edges.get(row.saturating_add(1))) else { return false };
    let last = first.checked_add(start).and_then(|from| from.checked_add(length));
    first >= 0 && start >= 0 && length >= 0 && last.is_some_and(|last| last <= end) && as_usize(end) <= values
}

/// Fills `out` with a value again and again, by copies that double.
fn repeat(value: &[u8], out: &mut [u8]) {
    if value.iter().all(|&byte| byte == value[0]) {
        out.fill(value.first().copied().unwrap_or(0));
        return;
    }
    let mut filled = value.len().min(out.len());
    out[..filled].copy_from_slice(&value[..filled]);
    while filled < out.len() {
        let more = filled.min(out.len() - filled);
        out.copy_within(..more, filled);
        filled += more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEQUENCES: Sequences<'_> =
        Sequences { rows: &[1, 0, 2], starts: &[0, 1, 0], lengths: &[2, 1, 3], edges: &[0, 2, 2, 3], length: 4 };

    #[test]
    fn every_output_is_filled() {
        let pool = crate::core::pool::shared(2).unwrap();
        let values: Vec<u8> = (0..7).flat_map(|value: u16| value.to_ne_bytes()).collect();
        let (mut out, mut ids, mut positions, mut mask) = (vec![9; 24], [9; 12], [9; 12], [9; 12]);
        let padding = (-2_i16).to_ne_bytes();
        let column =
            Output::Values { values: &values, edges: &[0, 2, 4, 7], width: 2, padding: &padding, out: &mut out };
        let outputs =
            vec![column, Output::SegmentIds(&mut ids), Output::PositionIds(&mut positions), Output::Mask(&mut mask)];
        fill(SEQUENCES, outputs, Some(&pool)).unwrap();
        let found: Vec<i16> = out.as_chunks::<2>().0.iter().map(|bytes| i16::from_ne_bytes(*bytes)).collect();
        assert_eq!(found, [2, 3, 1, -2, -2, -2, -2, -2, 4, 5, 6, -2]);
        assert_eq!(ids, [1, 1, 2, 0, 0, 0, 0, 0, 1, 1, 1, 0]);
        assert_eq!(positions, [0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0]);
        assert_eq!(mask, [1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 0]);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        for edges in [&[0, 2, 4, 6][..], &[0, 2, 4, 8], &[0, 2, 4], &[0, -2, 4, 7]] {
            let mut out = [0; 12];
            let column = Output::Values { values: &[0; 7], edges, width: 1, padding: &[0], out: &mut out };
            assert!(fill(SEQUENCES, vec![column], None).is_err());
        }
        for wrong in [
            Sequences { length: 2, ..SEQUENCES },
            Sequences { edges: &[0, 2, 1, 3], ..SEQUENCES },
            Sequences { edges: &[], ..SEQUENCES },
            Sequences { lengths: &[2, -1, 3], ..SEQUENCES },
            Sequences { lengths: &[2, i64::MAX, i64::MAX], ..SEQUENCES },
            Sequences { starts: &[0], ..SEQUENCES },
        ] {
            assert!(fill(wrong, vec![], None).is_err(), "{wrong:?}");
        }
        assert!(fill(SEQUENCES, vec![Output::Mask(&mut [0; 11])], None).is_err());
    }

    #[test]
    fn values_repeat() {
        for (value, size) in [(&[1, 2, 3][..], 21), (&[1, 2], 2), (&[5; 8], 80), (&[1, 2], 0)] {
            let mut out = vec![0; size];
            repeat(value, &mut out);
            assert!(out.chunks_exact(value.len()).all(|found| found == value));
        }
    }
}
