//! Resizes.

use super::super::chain::Chain;
use super::super::filter::Scaling;
use super::{Arguments, Op};
use crate::core::keys::Rng;

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

/// The whole image, resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resize {
    /// The size of the result.
    pub fit: Fit,
    /// The filter.
    pub scaling: Scaling,
}

impl Resize {
    pub(super) fn new(from: &Arguments) -> Result<Self, String> {
        let fit = if let Ok((height, width)) = from.size("size") {
            Fit::Exact { height, width }
        } else {
            let max_size = from.number("max_size").ok().map(|size| size as u32);
            Fit::Shorter { size: from.number("size")? as u32, max_size }
        };
        Ok(Self { fit, scaling: from.scaling()? })
    }
}

impl Op for Resize {
    fn apply(&self, chain: &mut Chain, _: &mut Rng) {
        chain.resize(fitted(chain.size(), self.fit), self.scaling);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_torchvision() {
        let shorter = |size, max_size| Fit::Shorter { size, max_size };
        assert_eq!(fitted((500, 375), shorter(256, None)), (341, 256));
        assert_eq!(fitted((375, 500), shorter(256, Some(300))), (225, 300));
        assert_eq!(fitted((1, 60_000), shorter(8, Some(9))), (1, 9));
        assert_eq!(fitted((9, 9), Fit::Exact { height: 1, width: 2 }), (2, 1));
    }
}
