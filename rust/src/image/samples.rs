//! Pixels that are made of fewer samples: weights of the pixels become weights of the samples.
//!
//! Upsampling is linear but for its rounding, so that upsampling and then resizing is one filter. Of an image that is
//! decoded at a part of its size, a sample is nearly the mean of the pixels that it stands for; giving it the sum of their
//! weights keeps the filter that they would have had.

/// How the pixels of an axis are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Samples {
    /// Samples in all.
    pub count: u32,
    /// Pixels that a sample stands for; its centre lies in the middle of them.
    pub times: u32,
    /// A pixel takes three quarters of its sample and one of the nearer neighbour (`times` is 2); without, its sample.
    pub triangle: bool,
}

impl Samples {
    /// The samples may be more than the pixels that they make, by so many.
    pub const MORE: usize = 2;

    /// Replaces the weights of `length` pixels from `first` on, which `weights` begins with, by those of their samples;
    /// returns first and number of these.
    pub fn gather(self, first: u32, length: usize, weights: &mut [f64], buffer: &mut Vec<f64>) -> (u32, usize) {
        if self.times == 1 {
            return (first, length);
        }
        let last = first + length as u32 - 1;
        let start = self.neighbours(first).0;
        let samples = (self.neighbours(last).1 - start) as usize + 1;
        buffer.clear();
        buffer.resize(samples, 0.0);
        for (pixel, &weight) in (first..).zip(&weights[..length]) {
            let (low, high) = self.neighbours(pixel);
            // The sample under the pixel is the lower one for the second of a pair.
            let share = if !self.triangle || pixel % 2 == 1 { 0.75 } else { 0.25 };
            buffer[(low - start) as usize] += share * weight;
            buffer[(high - start) as usize] += (1.0 - share) * weight;
        }
        weights[..samples].copy_from_slice(buffer);
        (start, samples)
    }

    /// The samples that make a pixel.
    fn neighbours(self, pixel: u32) -> (u32, u32) {
        let most = self.count - 1;
        // A shift for the usual case: this runs for every weight.
        let own = if self.times == 2 { pixel >> 1 } else { pixel / self.times }.min(most);
        match (self.triangle, pixel % 2) {
            (false, _) => (own, own),
            (true, 0) => (own.saturating_sub(1), own),
            (true, _) => (own, (own + 1).min(most)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(samples: Samples, first: u32, weights: &[f64]) -> (u32, Vec<f64>) {
        let mut room = weights.to_vec();
        room.extend([0.0; Samples::MORE]);
        let (start, length) = samples.gather(first, weights.len(), &mut room, &mut Vec::new());
        (start, room[..length].to_vec())
    }

    #[test]
    fn weights_follow_libjpegs_triangle() {
        let samples = Samples { count: 4, times: 2, triangle: true };
        assert_eq!(gathered(samples, 0, &[1.0]), (0, vec![1.0]));
        assert_eq!(gathered(samples, 1, &[1.0]), (0, vec![0.75, 0.25]));
        assert_eq!(gathered(samples, 2, &[4.0, 4.0]), (0, vec![1.0, 6.0, 1.0]));
        assert_eq!(gathered(samples, 3, &[4.0, 4.0]), (1, vec![4.0, 4.0]));
        assert_eq!(gathered(samples, 7, &[1.0]), (3, vec![1.0]));
        let repeated = Samples { triangle: false, ..samples };
        assert_eq!(gathered(repeated, 1, &[1.0, 2.0, 3.0]), (0, vec![1.0, 5.0]));
        assert_eq!(gathered(Samples { times: 4, ..repeated }, 3, &[1.0, 2.0]), (0, vec![1.0, 2.0]));
    }
}
