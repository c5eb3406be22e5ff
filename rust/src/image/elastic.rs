//! Elastic displacements: noise, smoothed, as torchvision v2's `ElasticTransform` makes it.

use super::fault::Fault;
use super::limits::try_memory;
use super::loops::{Loops, run_vectorised};
use super::simd::Level;
use super::warp::{BLOCK, Block, Map};
use crate::core::keys::Rng;

/// What a field of displacements is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elastic {
    /// Of the noise.
    pub key: u64,
    /// How far along x and y: in pixels, half of this at most.
    pub alpha: (f64, f64),
    /// How smooth along x and y: the Gaussian's standard deviation in pixels; 0 leaves the noise.
    pub sigma: (f64, f64),
}

/// For each pixel, how far from it lies the one that is taken: in halves of the sides.
#[derive(Clone, Debug)]
pub struct Field {
    size: (u32, u32),
    x: Vec<f32>,
    y: Vec<f32>,
}

impl Elastic {
    /// The displacements of an image of the given width and height.
    ///
    /// # Errors
    /// If the process may not have the memory.
    pub fn field(&self, size: (u32, u32), level: Level) -> Result<Field, Fault> {
        let (width, height) = (size.0 as usize, size.1 as usize);
        try_memory((width * height * 3 * size_of::<f32>()) as u64)?;
        let mut rng = Rng::new(self.key);
        let mut spare = Vec::new();
        let mut axis = |alpha: f64, sigma: f64, side: f32| {
            let mut field: Vec<f32> = (0..width * height).map(|_| rng.uniform() as f32 * 2.0 - 1.0).collect();
            if sigma > 0.0 {
                let taps = (8.0 * sigma + 1.0) as usize | 1;
                let kernels = (gaussian(taps, self.sigma.0), gaussian(taps, self.sigma.1));
                run_vectorised(level, Smooth { field: &mut field, spare: &mut spare, size: (width, height), kernels });
            }
            field.iter_mut().for_each(|number| *number = *number * alpha as f32 / side);
            field
        };
        let x = axis(self.alpha.0, self.sigma.0, size.0 as f32);
        let y = axis(self.alpha.1, self.sigma.1, size.1 as f32);
        Ok(Field { size, x, y })
    }
}

impl Field {
    /// How far from a pixel lies the one that is taken, in pixels.
    #[must_use]
    pub fn displacement(&self, x: u32, y: u32) -> (f32, f32) {
        let place = y as usize * self.size.0 as usize + x as usize;
        (self.x[place] * 0.5 * self.size.0 as f32, self.y[place] * 0.5 * self.size.1 as f32)
    }
}

impl Map for Field {
    #[inline(always)]
    fn places(&self, x: usize, y: usize, xs: &mut Block<f32>, ys: &mut Block<f32>) {
        let (width, height) = (self.size.0 as usize, self.size.1 as usize);
        let start = y * width + x;
        let count = BLOCK.min(width - x);
        let y = between(y as i32, height as f32);
        for (column, (to, &by)) in (x as i32..).zip(xs.iter_mut().zip(&self.x[start..start + count])) {
            *to = between(column, width as f32) + by;
        }
        ys.iter_mut().zip(&self.y[start..start + count]).for_each(|(to, &by)| *to = y + by);
    }
}

/// The middle of a pixel, from -1 at the first one's left edge to 1 at the last one's right edge.
#[inline(always)]
fn between(pixel: i32, side: f32) -> f32 {
    ((2 * pixel + 1) as f32 - side) / side
}

/// The weights of a Gaussian: `_get_gaussian_kernel1d`.
fn gaussian(taps: usize, sigma: f64) -> Vec<f32> {
    let from_middle = |tap: usize| tap as f64 - (taps - 1) as f64 / 2.0;
    let weights: Vec<f64> = (0..taps).map(|tap| (-0.5 * (from_middle(tap) / sigma).powi(2)).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| (weight / sum) as f32).collect()
}

/// A place that may lie outside of `length`, mirrored at the last pixels as often as it takes.
pub fn reflected(place: i64, length: usize) -> usize {
    let last = length as i64 - 1;
    if last == 0 {
        return 0;
    }
    let place = place.rem_euclid(2 * last);
    (if place > last { 2 * last - place } else { place }) as usize
}

/// Smooths along x, then along y; outside it is mirrored.
struct Smooth<'a> {
    field: &'a mut [f32],
    spare: &'a mut Vec<f32>,
    size: (usize, usize),
    kernels: (Vec<f32>, Vec<f32>),
}

impl Loops for Smooth<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { field, spare, size, kernels } = self;
        let (width, height) = size;
        spare.clear();
        spare.resize(field.len(), 0.0);
        let reach = kernels.0.len() / 2;
        let mut row = vec![0.0; width + 2 * reach];
        for (from, to) in field.chunks_exact(width).zip(spare.chunks_exact_mut(width)) {
            for (place, value) in row.iter_mut().enumerate() {
                *value = from[reflected(place as i64 - reach as i64, width)];
            }
            for (tap, &weight) in kernels.0.iter().enumerate() {
                to.iter_mut().zip(&row[tap..]).for_each(|(to, value)| *to += weight * value);
            }
        }
        let reach = kernels.1.len() / 2;
        for (y, to) in field.chunks_exact_mut(width).enumerate() {
            to.fill(0.0);
            for (tap, &weight) in kernels.1.iter().enumerate() {
                let from = reflected((y + tap) as i64 - reach as i64, height) * width;
                to.iter_mut().zip(&spare[from..from + width]).for_each(|(to, value)| *to += weight * value);
            }
        }
    }
}
