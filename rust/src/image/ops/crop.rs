//! Crops.

use super::super::chain::{Chain, Window};
use super::super::filter::Scaling;
use super::{Arguments, Op, round};
use crate::core::keys::Rng;

/// A random part of the image, resized.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomResizedCrop {
    /// Rows and columns of the result.
    pub size: (u32, u32),
    /// Range of the part's share of the area.
    pub scale: (f64, f64),
    /// Range of the part's width / height, uniform in its logarithm.
    pub ratio: (f64, f64),
    /// The filter.
    pub scaling: Scaling,
}

impl RandomResizedCrop {
    pub(super) fn new(from: &Arguments) -> Result<Self, String> {
        Ok(Self {
            size: from.size("size")?,
            scale: from.pair("scale")?,
            ratio: from.pair("ratio")?,
            scaling: from.scaling()?,
        })
    }
}

impl Op for RandomResizedCrop {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        let part = random_part(chain.size(), self.scale, self.ratio, rng);
        let named = [("top", part.y), ("left", part.x), ("height", part.height.into()), ("width", part.width.into())];
        named.into_iter().for_each(|(name, value)| chain.drew(name, value as f64));
        chain.crop(part);
        chain.resize((self.size.1, self.size.0), self.scaling);
    }
}

/// The centre of the image; a smaller one is padded with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CenterCrop {
    /// Rows and columns.
    pub size: (u32, u32),
}

impl CenterCrop {
    pub(super) fn new(from: &Arguments) -> Result<Self, String> {
        Ok(Self { size: from.size("size")? })
    }
}

impl Op for CenterCrop {
    fn apply(&self, chain: &mut Chain, _: &mut Rng) {
        chain.crop(centre(chain.size(), (self.size.1, self.size.0)));
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

/// The middle part of the given width and height; outside of the image where that is smaller.
pub(super) fn centre(size: (u32, u32), part: (u32, u32)) -> Window {
    let place = |size: u32, part: u32| {
        if part > size { -i64::from((part - size) / 2) } else { i64::from(round(f64::from(size - part) / 2.0)) }
    };
    Window { x: place(size.0, part.0), y: place(size.1, part.1), width: part.0, height: part.1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::keys::mix;

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
    fn centres_follow_torchvision() {
        // Python rounds halves to the even neighbour.
        assert_eq!(centre((5, 7), (2, 2)), Window { x: 2, y: 2, width: 2, height: 2 });
        assert_eq!(centre((2, 3), (5, 3)), Window { x: -1, y: 0, width: 5, height: 3 });
    }
}
