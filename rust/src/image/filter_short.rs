//! The weights of a filter that reaches few pixels: as `filter` computes them, in loops of a fixed length.
//!
//! How many pixels make a pixel of the result changes from one to the next, which a processor cannot foresee. So here all of
//! them take as many as one can need; those that it does not need weigh nothing.

use super::filter::{Axis, AxisTask, floor, indices, round, split};
use super::samples::Samples;

/// Room for the weights of one pixel, with zeros around them.
const ROOM: usize = 16;

impl Axis {
    /// Computes the weights of a filter that is cut at the edges, for a source that is not mirrored; false if it reaches too far, or
    /// the samples are unusual, and nothing was done.
    #[inline(always)]
    pub(super) fn weigh_few(
        &mut self,
        task: &AxisTask,
        placed: (u32, Samples),
        support: f64,
        shrink: f64,
        filter: &impl Fn(f64) -> f64,
    ) -> bool {
        macro_rules! few {
            ($($taps:literal)*) => {
                match ((2.0 * support).ceil() as usize, placed.1) {
                    $(
                        ($taps, Samples { times: 1, .. }) => self.few::<$taps, false>(task, placed, support, shrink, filter),
                        ($taps, Samples { times: 2, triangle: true, .. }) => {
                            self.few::<$taps, true>(task, placed, support, shrink, filter);
                        }
                    )*
                    _ => return false,
                }
            };
        }
        few!(2 3 4 5 6 7 8);
        true
    }

    /// `TAPS`: twice the support, rounded up. `DOUBLED`: the pixels are made of half as many samples, by libjpeg's triangle.
    fn few<const TAPS: usize, const DOUBLED: bool>(
        &mut self,
        task: &AxisTask,
        (start, samples): (u32, Samples),
        support: f64,
        shrink: f64,
        filter: &impl Fn(f64) -> f64,
    ) {
        let scale = f64::from(task.source) / f64::from(task.target);
        let (edge, start, end) = (f64::from(start), i64::from(start), i64::from(start + task.source));
        let stride = if DOUBLED { TAPS / 2 + 2 } else { TAPS };
        let one = 1_i32 << self.precision;
        self.clear(stride);
        self.weights.resize(stride * task.count as usize, 0);
        self.fine.resize(if self.fine_bits > 0 { self.weights.len() } else { 0 }, 0);
        for (place, index) in indices(task).enumerate() {
            let centre = edge + (f64::from(index) + 0.5) * scale;
            let first = floor(centre - support + 0.5).clamp(start, end - 1);
            let last = floor(centre + support + 0.5).clamp(start + 1, end);
            let length = (last - first).clamp(1, TAPS as i64) as usize;
            let (mut raw, mut sum) = ([0.0; ROOM], 0.0);
            for (tap, weight) in raw[..TAPS].iter_mut().enumerate() {
                let found = filter(((first + tap as i64) as f64 - centre + 0.5) * shrink);
                *weight = if tap < length { found } else { 0.0 };
                sum += *weight;
            }
            if sum == 0.0 {
                (raw[0], sum) = (1.0, 1.0);
            }
            let unit = f64::from(one) / sum;
            raw[..TAPS].iter_mut().for_each(|weight| *weight *= unit);
            let (mut first, mut length) = (first as u32, length);
            if DOUBLED {
                (first, length) = match samples.fold::<TAPS>(first, length, &raw) {
                    Some((first, length, folded)) => {
                        raw = folded;
                        (first, length)
                    }
                    None => {
                        let found = samples.gather(first, length, &mut raw, &mut self.gathered);
                        raw[found.1..].fill(0.0);
                        found
                    }
                };
            }
            let weights = &mut self.weights[place * stride..][..stride];
            if self.fine_bits > 0 {
                split(&raw[..stride], self.fine_bits, weights, &mut self.fine[place * stride..][..stride]);
            } else {
                round(&raw[..stride], one, weights);
            }
            self.first.push(first);
            self.lengths.push(length as u32);
        }
        self.drop_idle_taps();
    }

    /// Keeps as many taps as one pixel of the result needs.
    fn drop_idle_taps(&mut self) {
        let (stride, taps) = (self.taps, self.lengths.iter().copied().max().unwrap_or(1) as usize);
        if taps == stride {
            return;
        }
        for weights in [&mut self.weights, &mut self.fine] {
            let count = weights.len() / stride;
            for place in 1..count {
                weights.copy_within(place * stride..place * stride + taps, place * taps);
            }
            weights.truncate(count * taps);
        }
        self.taps = taps;
    }
}

impl Samples {
    /// As `gather`, of two pixels a sample with the triangle, of at most `TAPS` pixels whose further weights are zeros: first sample,
    /// number and weights. None at the edges, where a neighbour is missing.
    #[inline(always)]
    fn fold<const TAPS: usize>(
        self,
        first: u32,
        length: usize,
        weights: &[f64; ROOM],
    ) -> Option<(u32, usize, [f64; ROOM])> {
        let odd = first % 2;
        let last = first + length as u32 - 1;
        let (low, high) = ((first / 2 + odd).checked_sub(1)?, last / 2 + last % 2);
        if high >= self.count {
            return None;
        }
        // Pixel 2 i of the even one at or before `first` comes to place 3 + 2 i.
        let (mut pixels, mut folded) = ([0.0; ROOM + 4], [0.0; ROOM]);
        pixels[3 + odd as usize..][..TAPS].copy_from_slice(&weights[..TAPS]);
        let pixels = &pixels[2 * odd as usize..];
        for (sample, weight) in folded[..TAPS / 2 + 2].iter_mut().enumerate() {
            let pixels = &pixels[2 * sample..];
            *weight = 0.75 * (pixels[1] + pixels[2]) + 0.25 * (pixels[0] + pixels[3]);
        }
        Some((low, (high - low) as usize + 1, folded))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::filter::{Filter, Scaling, cubic, triangle};
    use super::*;

    proptest! {
        #[test]
        fn weights_are_those_of_loops_of_any_length(
            source in 1_u32..700,
            target in 1_u32..300,
            start in 0_u32..20,
            behind in 0_u32..9,
            bicubic in any::<bool>(),
            doubled in any::<bool>(),
        ) {
            let filter = if bicubic { Filter::Bicubic } else { Filter::Bilinear };
            let task = AxisTask { source, target, first: 0, count: target, mirrored: false, reversed: bicubic };
            let pixels = start + source + behind;
            let samples = if doubled {
                Samples { count: pixels.div_ceil(2), times: 2, triangle: true }
            } else {
                Samples { count: pixels, times: 1, triangle: false }
            };
            let (mut axis, mut other) = (Axis::default(), Axis::default());
            axis.compute_placed(&task, Scaling { filter, antialias: true }, start, samples);
            (other.precision, other.fine_bits) = (axis.precision, axis.fine_bits);
            let widening = (f64::from(source) / f64::from(target)).max(1.0);
            if bicubic {
                other.weigh_any(&task, (start, samples), widening, 2.0, true, |x| cubic(x, -0.5));
            } else {
                other.weigh_any(&task, (start, samples), widening, 1.0, true, triangle);
            }
            prop_assert_eq!(&axis.first, &other.first);
            let value = |axis: &Axis, index: usize, tap: usize| {
                let at = index * axis.taps + tap;
                let fine = axis.fine.get(at).map_or(0, |&fine| i64::from(fine));
                if tap < axis.taps { (i64::from(axis.weights[at]) << axis.fine_bits) + fine } else { 0 }
            };
            for index in 0..target as usize {
                for tap in 0..axis.taps.max(other.taps) {
                    // Sums in another order may round to the neighbour.
                    let apart = value(&axis, index, tap) - value(&other, index, tap);
                    prop_assert!(apart.abs() <= i64::from(doubled));
                }
            }
        }
    }
}
