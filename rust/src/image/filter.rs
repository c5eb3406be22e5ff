//! Which source pixels make an output pixel, and with what weights.
//!
//! The supports and weights are those of Pillow's `ImagingResample` (Pillow, `src/libImaging/Resample.c`): the filter is
//! widened by the scale when the picture shrinks. Weights are rounded to 16-bit fixed point and sum to one exactly, so
//! that a flat picture stays flat.

/// The shape of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Filter {
    /// The pixel whose area holds the output pixel's centre.
    Nearest,
    /// A triangle, two source pixels wide.
    Bilinear,
    /// Keys' cubic, four source pixels wide; a = -0.5 with antialiasing (Pillow), -0.75 without (torch).
    Bicubic,
}

/// A filter, and whether it widens when the picture shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scaling {
    /// The shape.
    pub filter: Filter,
    /// Whether the filter is widened by the scale, as Pillow always does; without, as `torch.nn.functional.interpolate`.
    pub antialias: bool,
}

/// How one axis of a picture is resized.
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
    /// The picture is mirrored before it is resized.
    pub mirrored: bool,
    /// The result is mirrored after it is resized; `first` counts before.
    pub reversed: bool,
}

/// The weights of one axis, reused from picture to picture.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// First source pixel of each output pixel.
    pub first: Vec<u32>,
    /// Number of weights kept for each output pixel, the largest number that one needs.
    pub taps: usize,
    /// Weights, `taps` for each output pixel, zero where one needs fewer.
    pub weights: Vec<i16>,
    /// One is `1 << precision`.
    pub precision: u32,
    lengths: Vec<u32>,
    raw: Vec<f64>,
}

fn triangle(x: f64) -> f64 {
    (1.0 - x.abs()).max(0.0)
}

fn cubic(x: f64, a: f64) -> f64 {
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
        let scale = f64::from(task.source) / f64::from(task.target);
        let widening = if scaling.antialias { scale.max(1.0) } else { 1.0 };
        // No weight exceeds 2 / widening (the filter cut in half at an edge), so this precision fits 16 bits; it follows
        // from the scale alone, so that a window has the same bits as the whole.
        self.precision = 14 + ((widening / 2.0).max(1.0).log2() as u32).min(8);
        match scaling.filter {
            Filter::Nearest => self.nearest(task, scale),
            Filter::Bilinear if task.source == task.target => self.nearest(task, scale),
            Filter::Bicubic if task.source == task.target => self.nearest(task, scale),
            Filter::Bilinear => self.weigh(task, widening, 1.0, scaling.antialias, triangle),
            Filter::Bicubic if scaling.antialias => self.weigh(task, widening, 2.0, true, |x| cubic(x, -0.5)),
            Filter::Bicubic => self.weigh(task, 1.0, 2.0, false, |x| cubic(x, -0.75)),
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
        for (first, weights) in self.first.iter_mut().zip(self.weights.chunks_exact_mut(self.taps)) {
            let back = first.saturating_sub(room);
            weights.rotate_right(back as usize);
            *first -= back;
        }
    }

    fn clear(&mut self, taps: usize) {
        self.taps = taps;
        self.first.clear();
        self.lengths.clear();
        self.weights.clear();
    }

    fn nearest(&mut self, task: &AxisTask, scale: f64) {
        self.clear(1);
        self.precision = 14;
        // Pillow adds up the steps (ImagingScaleAffine), which decides where a centre falls between two pixels.
        self.raw.clear();
        let mut centre = scale * 0.5;
        for _ in 0..task.first + task.count {
            self.raw.push(centre);
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
    fn weigh(&mut self, task: &AxisTask, widening: f64, half: f64, cut: bool, filter: impl Fn(f64) -> f64) {
        let scale = f64::from(task.source) / f64::from(task.target);
        let (support, shrink) = (half * widening, 1.0 / widening);
        let size = i64::from(task.source);
        let room = support.ceil() as usize * 2 + 1;
        self.clear(0);
        self.raw.clear();
        self.raw.resize(room * task.count as usize, 0.0);
        for (index, raw) in indices(task).zip(self.raw.chunks_exact_mut(room)) {
            let centre = (f64::from(index) + 0.5) * scale;
            let low = (centre - support + 0.5).floor() as i64;
            let high = (centre + support + 0.5).floor() as i64;
            let (first, last) = (low.clamp(0, size - 1), high.clamp(1, size));
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
            self.first.push(if task.mirrored { task.source - first as u32 - length as u32 } else { first as u32 });
            self.lengths.push(length as u32);
        }
        self.quantise(task.mirrored, room);
    }

    fn quantise(&mut self, mirrored: bool, room: usize) {
        self.taps = self.lengths.iter().copied().max().unwrap_or(1) as usize;
        self.weights.resize(self.taps * self.first.len(), 0);
        let rows = self.weights.chunks_exact_mut(self.taps).zip(self.raw.chunks_exact(room)).zip(&self.lengths);
        for ((weights, raw), &length) in rows {
            let length = length as usize;
            let (mut left, mut largest) = (1_i32 << self.precision, 0);
            for tap in 0..length {
                // Half away from zero, as Pillow does.
                let value = (raw[tap] + 0.5_f64.copysign(raw[tap])) as i32;
                left -= value;
                weights[tap] = value as i16;
                if weights[tap] > weights[largest] {
                    largest = tap;
                }
            }
            weights[largest] += left as i16;
            if mirrored {
                weights[..length].reverse();
            }
        }
    }
}

/// The wanted output pixels, counted in the picture as it is before the mirroring that follows.
fn indices(task: &AxisTask) -> impl Iterator<Item = u32> + use<> {
    let (first, last, reversed) = (task.first, task.first + task.count, task.reversed);
    (0..task.count).map(move |place| if reversed { last - 1 - place } else { first + place })
}
