//! The operations on an image's geometry, with torchvision v2's sampling and rounding rules
//! (torchvision, `transforms/v2/_geometry.py` and `functional/_geometry.py`).

use super::chain::{Chain, Window};
use super::filter::Scaling;
use crate::keys::Rng;

/// The size that a resize aims at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The shorter side, keeping the ratio; the longer side no longer than `max_size`.
    Shorter {
        /// Pixels of the shorter side.
        size: u32,
        /// Most pixels of the longer side.
        max_size: Option<u32>,
    },
    /// Both sides.
    Exact {
        /// Rows.
        height: u32,
        /// Columns.
        width: u32,
    },
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// A random part of the image, resized.
    RandomResizedCrop {
        /// Rows and columns of the result.
        size: (u32, u32),
        /// Range of the part's share of the area.
        scale: (f64, f64),
        /// Range of the part's width / height, uniform in its logarithm.
        ratio: (f64, f64),
        /// The filter.
        scaling: Scaling,
    },
    /// The whole image, resized.
    Resize {
        /// The size of the result.
        fit: Fit,
        /// The filter.
        scaling: Scaling,
    },
    /// The centre of the image; a smaller one is padded with zeros.
    CenterCrop {
        /// Rows.
        height: u32,
        /// Columns.
        width: u32,
    },
    /// Left and right exchanged with the given probability.
    FlipHorizontal(f64),
    /// Top and bottom exchanged with the given probability.
    FlipVertical(f64),
    /// Grey with the given probability.
    Grayscale(f64),
}

/// Python's `round`: halves to the even neighbour.
fn round(value: f64) -> u32 {
    value.round_ties_even() as u32
}

impl Op {
    /// Applies the operation, with its random choices from `rng`.
    pub fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        match *self {
            Self::RandomResizedCrop { size, scale, ratio, scaling } => {
                chain.crop(random_part(chain.size(), scale, ratio, rng));
                chain.resize((size.1, size.0), scaling);
            }
            Self::Resize { fit, scaling } => chain.resize(fitted(chain.size(), fit), scaling),
            Self::CenterCrop { height, width } => chain.crop(centre(chain.size(), (width, height))),
            Self::FlipHorizontal(probability) => {
                if rng.uniform() < probability {
                    chain.flip_horizontal();
                }
            }
            Self::FlipVertical(probability) => {
                if rng.uniform() < probability {
                    chain.flip_vertical();
                }
            }
            Self::Grayscale(probability) => {
                if rng.uniform() < probability {
                    chain.grey();
                }
            }
        }
    }
}

/// The part that `RandomResizedCrop` takes of an image of the given width and height: ten attempts, then the middle.
pub fn random_part(size: (u32, u32), scale: (f64, f64), ratio: (f64, f64), rng: &mut Rng) -> Window {
    let (width, height) = size;
    let area = f64::from(width) * f64::from(height);
    for _ in 0..10 {
        let target = area * rng.uniform_in(scale.0, scale.1);
        let aspect = rng.uniform_in(ratio.0.ln(), ratio.1.ln()).exp();
        let (w, h) = (round((target * aspect).sqrt()), round((target / aspect).sqrt()));
        if (1..=width).contains(&w) && (1..=height).contains(&h) {
            let y = rng.below(u64::from(height - h) + 1) as i64;
            let x = rng.below(u64::from(width - w) + 1) as i64;
            return Window { x, y, width: w, height: h };
        }
    }
    let aspect = f64::from(width) / f64::from(height);
    let (w, h) = if aspect < ratio.0 {
        (width, round(f64::from(width) / ratio.0).clamp(1, height))
    } else if aspect > ratio.1 {
        (round(f64::from(height) * ratio.1).clamp(1, width), height)
    } else {
        (width, height)
    };
    Window { x: i64::from((width - w) / 2), y: i64::from((height - h) / 2), width: w, height: h }
}

/// The width and height after a resize of an image of the given width and height.
#[must_use]
pub fn fitted(size: (u32, u32), fit: Fit) -> (u32, u32) {
    match fit {
        Fit::Exact { height, width } => (width, height),
        Fit::Shorter { size: requested, max_size } => {
            let (short, long) = (size.0.min(size.1), size.0.max(size.1));
            let (mut new_short, mut new_long) = (requested, scaled(requested, long, short));
            if let Some(most) = max_size.filter(|&most| new_long > most) {
                (new_short, new_long) = (scaled(most, new_short, new_long), most);
            }
            if size.0 <= size.1 { (new_short, new_long) } else { (new_long, new_short) }
        }
    }
}

/// `int(value × numerator / denominator)` as Python computes it, at least 1.
fn scaled(value: u32, numerator: u32, denominator: u32) -> u32 {
    ((f64::from(value) * f64::from(numerator) / f64::from(denominator)) as u32).max(1)
}

/// The middle part of the given width and height; outside of the image where that is smaller.
fn centre(size: (u32, u32), part: (u32, u32)) -> Window {
    let place = |size: u32, part: u32| {
        if part > size { -i64::from((part - size) / 2) } else { i64::from(round(f64::from(size - part) / 2.0)) }
    };
    Window { x: place(size.0, part.0), y: place(size.1, part.1), width: part.0, height: part.1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::mix;

    #[test]
    fn parts_are_pinned() {
        // Resumed runs draw the same parts only as long as these stay: a change here changes every augmentation.
        let part = |sample| {
            let mut rng = Rng::new(mix(&[1, sample, 1]));
            let Window { x, y, width, height } = random_part((500, 400), (0.08, 1.0), (0.75, 4.0 / 3.0), &mut rng);
            (x, y, width, height)
        };
        assert_eq!([part(0), part(1), part(2)], [(6, 73, 383, 312), (16, 5, 297, 259), (88, 117, 315, 250)]);
    }

    #[test]
    fn parts_lie_inside() {
        for sample in 0..20_000 {
            let mut rng = Rng::new(sample);
            let size = (1 + rng.below(300) as u32, 1 + rng.below(300) as u32);
            let part = random_part(size, (0.01, 1.0), (0.2, 5.0), &mut rng);
            assert!(part.x >= 0 && part.y >= 0 && part.width > 0 && part.height > 0);
            assert!(part.x + i64::from(part.width) <= i64::from(size.0), "{size:?} {part:?}");
            assert!(part.y + i64::from(part.height) <= i64::from(size.1), "{size:?} {part:?}");
        }
    }

    #[test]
    fn sizes_follow_torchvision() {
        let shorter = |size, max_size| Fit::Shorter { size, max_size };
        assert_eq!(fitted((500, 375), shorter(256, None)), (341, 256));
        assert_eq!(fitted((375, 500), shorter(256, Some(300))), (225, 300));
        assert_eq!(fitted((1, 60_000), shorter(8, Some(9))), (1, 9));
        assert_eq!(fitted((9, 9), Fit::Exact { height: 1, width: 2 }), (2, 1));
        // Python rounds halves to the even neighbour.
        assert_eq!(centre((5, 7), (2, 2)), Window { x: 2, y: 2, width: 2, height: 2 });
        assert_eq!(centre((2, 3), (5, 3)), Window { x: -1, y: 0, width: 5, height: 3 });
    }
}
