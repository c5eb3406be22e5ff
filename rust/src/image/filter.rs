//! Which source pixels make an output pixel, and with what weights.
//!
//! The supports and weights are those of Pillow's `ImagingResample` (Pillow, `src/libImaging/Resample.c`): the filter is
//! widened by the scale when the image shrinks. A bilinear weight is one 16-bit number, which keeps the result within
//! one level of Pillow's; a bicubic weight is two, which together are Pillow's own 22 bits.

use super::samples::Samples;

/// The shape of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Filter {
    /// The pixel whose area holds the output pixel's centre, as Pillow finds it.
    Nearest,
    /// The same, as `torch.nn.functional.interpolate` finds it by "nearest-exact": another pixel where rounding decides.
    NearestExact,
    /// A triangle, two source pixels wide.
    Bilinear,
    /// Keys' cubic, four source pixels wide; a = -0.5 with antialiasing (Pillow), -0.75 without (torch).
    Bicubic,
}

impl Filter {
    /// Whether each pixel of the result is one of the source.
    #[must_use]
    pub const fn is_nearest(self) -> bool {
        matches!(self, Self::Nearest | Self::NearestExact)
    }
}

/// A filter, and whether it widens when the image shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scaling {
    /// The shape.
    pub filter: Filter,
    /// Whether the filter is widened by the scale, as Pillow always does; without, as `torch.nn.functional.interpolate`.
    pub antialias: bool,
}

/// Pillow's `PRECISION_BITS`.
const PILLOW_BITS: u32 = 22;

/// How one axis of an image is resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisTask {
    /// Pixels before.
    pub source: u32,
    /// Pixels after.
    pub target: u32,
    /// First of the wanted pixels after.
    pub first: u32,
    /// Number of wanted pixels after.
    pub count: u32,
    /// The image is mirrored before it is resized.
    pub mirrored: bool,
    /// The result is mirrored after it is resized; `first` counts before.
    pub reversed: bool,
}

/// The weights of one axis, reused from image to image.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// First source pixel of each output pixel.
    pub first: Vec<u32>,
    /// Number of weights stored for each output pixel: the most that one needs.
    pub taps: usize,
    /// Weights, `taps` for each output pixel, zero where one needs fewer; in units of `1 << fine_bits`.
    pub weights: Vec<i16>,
    /// What is to be added to each weight, in units of one; empty if there is nothing.
    pub fine: Vec<i16>,
    /// Bits of the fine weights; 0 without them.
    pub fine_bits: u32,
    /// A sum of products is shifted by this; one is `1 << precision`.
    pub precision: u32,
    pub(super) lengths: Vec<u32>,
    raw: Vec<f64>,
    pub(super) gathered: Vec<f64>,
}

pub(super) fn triangle(x: f64) -> f64 {
    (1.0 - x.abs()).max(0.0)
}

pub(super) fn cubic(x: f64, a: f64) -> f64 {
    let x = x.abs();
    if x < 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * a
    } else {
        0.0
    }
}

impl Axis {
    /// Computes the weights of `task`; `source` and `target` must not be 0.
    pub fn compute(&mut self, task: &AxisTask, scaling: Scaling) {
        if scaling.filter.is_nearest() || task.source == task.target {
            return self.nearest(task, scaling.filter);
        }
        self.compute_placed(task, scaling, 0, Samples { count: task.source, times: 1, triangle: false });
    }

    /// As [`Self::compute`]; returns the weights as they are before they are rounded, [`Self::taps`] for each output pixel.
    pub fn compute_exact(&mut self, task: &AxisTask, scaling: Scaling) -> Vec<f64> {
        self.compute(task, Scaling { filter: Filter::Nearest, ..scaling });
        if scaling.filter.is_nearest() || task.source == task.target {
            return vec![1.0; self.len()];
        }
        let placed = (0, Samples { count: task.source, times: 1, triangle: false });
        let scale = f64::from(task.source) / f64::from(task.target);
        let widening = if scaling.antialias { scale.max(1.0) } else { 1.0 };
        match (scaling.filter, scaling.antialias) {
            (Filter::Bicubic, true) => self.weigh_any(task, placed, widening, 2.0, true, |x| cubic(x, -0.5)),
            (Filter::Bicubic, false) => self.weigh_any(task, placed, 1.0, 2.0, false, |x| cubic(x, -0.75)),
            _ => self.weigh_any(task, placed, widening, 1.0, scaling.antialias, triangle),
        }
        let (one, room) = (f64::from(1_u32 << self.precision), self.raw.len() / self.len());
        let mut weights = vec![0.0; self.taps * self.len()];
        for (index, (weights, raw)) in weights.chunks_exact_mut(self.taps).zip(self.raw.chunks_exact(room)).enumerate()
        {
            let weights = &mut weights[..self.lengths[index] as usize];
            weights.iter_mut().zip(raw).for_each(|(weight, raw)| *weight = raw / one);
            if task.mirrored {
                weights.reverse();
            }
        }
        weights
    }

    /// Computes the weights of `samples`, for a source that begins at pixel `start` of those which they make. Not for the filter
    /// `Nearest`, nor for a mirrored source.
    pub fn compute_placed(&mut self, task: &AxisTask, scaling: Scaling, start: u32, samples: Samples) {
        let scale = f64::from(task.source) / f64::from(task.target);
        let widening = if scaling.antialias { scale.max(1.0) } else { 1.0 };
        // No weight exceeds 1 (bicubic: 2), nor 2 / widening (the filter cut in half at an edge) for each pixel that a
        // sample stands for, so this fits 16 bits; it follows from the scale alone, so that a window has the same bits as
        // the whole.
        let least = (widening / f64::from(2 * samples.times)).max(1.0);
        let coarse = 15 + (least.log2() as u32).min(7) - u32::from(scaling.filter == Filter::Bicubic);
        self.fine_bits = if scaling.filter == Filter::Bicubic { PILLOW_BITS - coarse } else { 0 };
        self.precision = coarse + self.fine_bits;
        match (scaling.filter, scaling.antialias) {
            (Filter::Bicubic, true) => self.weigh(task, (start, samples), widening, 2.0, true, |x| cubic(x, -0.5)),
            (Filter::Bicubic, false) => self.weigh(task, (start, samples), 1.0, 2.0, false, |x| cubic(x, -0.75)),
            _ => self.weigh(task, (start, samples), widening, 1.0, scaling.antialias, triangle),
        }
    }

    /// The source pixels that are needed: (first, number).
    #[must_use]
    pub fn extent(&self) -> (u32, u32) {
        let first = self.first.iter().copied().min().unwrap_or(0);
        let last = self.first.iter().zip(&self.lengths).map(|(first, length)| first + length).max().unwrap_or(first);
        (first, last - first)
    }

    /// Number of output pixels.
    #[must_use]
    pub fn len(&self) -> usize {
        self.first.len()
    }

    /// Whether there is no output pixel.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Number of source pixels that make output pixel `index`.
    #[must_use]
    pub fn length(&self, index: usize) -> usize {
        self.lengths[index] as usize
    }

    /// Counts source pixels from `origin` on.
    pub fn rebase(&mut self, origin: u32) {
        self.first.iter_mut().for_each(|first| *first -= origin);
    }

    /// Keeps all `taps` of every output pixel below `size`, by moving the first to the left, with zero weights before.
    pub fn keep_inside(&mut self, size: u32) {
        let room = size.saturating_sub(self.taps as u32);
        for (index, first) in self.first.iter_mut().enumerate() {
            let back = first.saturating_sub(room);
            if back > 0 {
                let part = index * self.taps..(index + 1) * self.taps;
                self.weights[part.clone()].rotate_right(back as usize);
                if let Some(fine) = self.fine.get_mut(part) {
                    fine.rotate_right(back as usize);
                }
                *first -= back;
            }
        }
    }

    pub(super) fn clear(&mut self, taps: usize) {
        self.taps = taps;
        self.first.clear();
        self.lengths.clear();
        self.weights.clear();
        self.fine.clear();
    }

    fn nearest(&mut self, task: &AxisTask, filter: Filter) {
        self.clear(1);
        (self.precision, self.fine_bits) = (14, 0);
        let scale = f64::from(task.source) / f64::from(task.target);
        // Pillow adds up the steps (ImagingScaleAffine), which decides where a centre falls between two pixels.
        self.raw.clear();
        let mut centre = scale * 0.5;
        for index in 0..task.first + task.count {
            let exact = || f64::from((index as f32 + 0.5) * (task.source as f32 / task.target as f32));
            self.raw.push(if filter == Filter::NearestExact { exact() } else { centre });
            centre += scale;
        }
        for index in indices(task) {
            let place = (self.raw[index as usize] as u32).min(task.source - 1);
            self.first.push(if task.mirrored { task.source - 1 - place } else { place });
            self.lengths.push(1);
            self.weights.push(1 << 14);
        }
    }

    #[inline(always)]
    fn weigh(
        &mut self,
        task: &AxisTask,
        placed: (u32, Samples),
        widening: f64,
        half: f64,
        cut: bool,
        filter: impl Fn(f64) -> f64,
    ) {
        let is_few = cut && !task.mirrored && self.weigh_few(task, placed, half * widening, 1.0 / widening, &filter);
        if !is_few {
            self.weigh_any(task, placed, widening, half, cut, filter);
        }
    }

    #[inline(always)]
    pub(super) fn weigh_any(
        &mut self,
        task: &AxisTask,
        (start, samples): (u32, Samples),
        widening: f64,
        half: f64,
        cut: bool,
        filter: impl Fn(f64) -> f64,
    ) {
        let scale = f64::from(task.source) / f64::from(task.target);
        let (support, shrink) = (half * widening, 1.0 / widening);
        let (edge, start, end) = (f64::from(start), i64::from(start), i64::from(start + task.source));
        let room = support.ceil() as usize * 2 + 1 + Samples::MORE;
        self.clear(0);
        self.raw.clear();
        self.raw.resize(room * task.count as usize, 0.0);
        for (index, raw) in indices(task).zip(self.raw.chunks_exact_mut(room)) {
            let centre = edge + (f64::from(index) + 0.5) * scale;
            let low = floor(centre - support + 0.5);
            let high = floor(centre + support + 0.5);
            let (first, last) = (low.clamp(start, end - 1), high.clamp(start + 1, end));
            let length = (last - first).max(1) as usize;
            if cut {
                // What falls outside is left out, and the rest is scaled up (Pillow).
                for (tap, weight) in raw[..length].iter_mut().enumerate() {
                    *weight = filter(((first + tap as i64) as f64 - centre + 0.5) * shrink);
                }
            } else {
                // What falls outside counts for the edge pixel (torch.nn.functional.interpolate).
                for place in low..high {
                    raw[(place.clamp(first, last - 1) - first) as usize] += filter(place as f64 - centre + 0.5);
                }
            }
            let mut sum: f64 = raw[..length].iter().sum();
            if sum == 0.0 {
                (raw[0], sum) = (1.0, 1.0);
            }
            let unit = f64::from(1_u32 << self.precision) / sum;
            raw[..length].iter_mut().for_each(|weight| *weight *= unit);
            let (first, length) = samples.gather(first as u32, length, raw, &mut self.gathered);
            self.first.push(if task.mirrored { task.source - first - length as u32 } else { first });
            self.lengths.push(length as u32);
        }
        self.quantise(task.mirrored, room);
    }

    fn quantise(&mut self, mirrored: bool, room: usize) {
        self.taps = self.lengths.iter().copied().max().unwrap_or(1) as usize;
        let size = self.taps * self.first.len();
        self.weights.resize(size, 0);
        self.fine.resize(if self.fine_bits > 0 { size } else { 0 }, 0);
        for (index, (raw, &length)) in self.raw.chunks_exact(room).zip(&self.lengths).enumerate() {
            let raw = &raw[..length as usize];
            let part = index * self.taps..index * self.taps + raw.len();
            let weights = &mut self.weights[part.clone()];
            if self.fine_bits > 0 {
                split(raw, self.fine_bits, weights, &mut self.fine[part.clone()]);
            } else {
                round(raw, 1 << self.precision, weights);
            }
            if mirrored {
                weights.reverse();
                if let Some(fine) = self.fine.get_mut(part) {
                    fine.reverse();
                }
            }
        }
    }
}

/// [`f64::floor`] for what fits, without a call.
#[inline(always)]
pub(super) fn floor(value: f64) -> i64 {
    let whole = value as i64;
    whole - i64::from(whole as f64 > value)
}

/// Half away from zero, as Pillow does.
fn nearest_integer(value: f64) -> i32 {
    (value + 0.5_f64.copysign(value)) as i32
}

/// Rounds to weights whose sum is `one`, so that a flat image stays flat (one that stands alone may lack the last bit).
#[inline(always)]
pub(super) fn round(raw: &[f64], one: i32, weights: &mut [i16]) {
    let (mut left, mut largest) = (one, 0);
    for (tap, &raw) in raw.iter().enumerate() {
        let value = nearest_integer(raw).min(i32::from(i16::MAX));
        left -= value;
        weights[tap] = value as i16;
        if weights[tap] > weights[largest] {
            largest = tap;
        }
    }
    weights[largest] = (i32::from(weights[largest]) + left).min(i32::from(i16::MAX)) as i16;
}

/// Splits Pillow's integer weights into an upper part and a signed lower part of `bits` bits.
#[inline(always)]
pub(super) fn split(raw: &[f64], bits: u32, upper: &mut [i16], lower: &mut [i16]) {
    for (tap, &raw) in raw.iter().enumerate() {
        let value = nearest_integer(raw);
        let high = (value + (1 << (bits - 1))) >> bits;
        upper[tap] = high as i16;
        lower[tap] = (value - (high << bits)) as i16;
    }
}

/// The wanted output pixels, counted in the image as it is before the mirroring that follows.
pub(super) fn indices(task: &AxisTask) -> impl Iterator<Item = u32> + use<> {
    let (first, last, reversed) = (task.first, task.first + task.count, task.reversed);
    (0..task.count).map(move |place| if reversed { last - 1 - place } else { first + place })
}
