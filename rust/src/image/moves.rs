//! How ops moved an image's pixels: what boxes, masks and points beside it follow.

use super::affine::Affine;
use super::elastic::Elastic;

/// A rectangle that may begin outside of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Left edge.
    pub x: i64,
    /// Top edge.
    pub y: i64,
    /// Number of columns.
    pub width: u32,
    /// Number of rows.
    pub height: u32,
}

impl Window {
    /// All of an image.
    #[must_use]
    pub const fn whole(size: (u32, u32)) -> Self {
        Self { x: 0, y: 0, width: size.0, height: size.1 }
    }

    /// What lies in both.
    #[must_use]
    pub fn intersect(self, other: Self) -> Self {
        let (x, y) = (self.x.max(other.x), self.y.max(other.y));
        let right = (self.x + i64::from(self.width)).min(other.x + i64::from(other.width));
        let bottom = (self.y + i64::from(self.height)).min(other.y + i64::from(other.height));
        Self { x, y, width: (right - x).max(0) as u32, height: (bottom - y).max(0) as u32 }
    }

    /// Whether it has no pixel.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.width == 0 || self.height == 0
    }
}

/// What stands around an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Border {
    /// The last pixel, again and again.
    Edge,
    /// The image mirrored at its last pixel.
    Reflect,
    /// The image mirrored behind its last pixel, which stands twice.
    Symmetric,
}

/// One move, with the numbers that decide where a pixel goes. torchvision v2's functions of the same names say what boxes and points become.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Move {
    /// A part was kept; where it reaches out of the image, there is a margin. `crop`, `pad`, and `affine` where that only translates.
    Crop(Window),
    /// As `Crop`, but with the image itself in the margin.
    Around(Window, Border),
    /// To the size behind.
    Resize,
    /// Left and right.
    FlipHorizontal,
    /// Top and bottom.
    FlipVertical,
    /// By 180 degrees: both, but for points, which a rotation moves by all of a side.
    HalfTurn,
    /// Columns became rows.
    QuarterTurn {
        /// Or anticlockwise.
        clockwise: bool,
    },
    /// By [`Affine::forward`] of the size before. Where the size behind is another one, the result was shifted so that all of it lies inside (`rotate(expand=True)`).
    Affine(Affine),
    /// A place (x, y) of the result is taken from ((a x + b y + c) / (g x + h y + 1), (d x + e y + f) / (g x + h y + 1)).
    Perspective([f32; 8]),
    /// By [`Elastic::field`] of the size, which is the same however often it is made.
    Elastic(Elastic),
}

/// A move of an image that had this size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moved {
    /// The op's.
    pub number: u64,
    /// Width and height before.
    pub before: (u32, u32),
    /// Width and height behind.
    pub after: (u32, u32),
    /// What was done.
    pub by: Move,
}

impl Moved {
    /// Times as wide and high, as torchvision multiplies boxes and points by them.
    #[must_use]
    pub fn ratios(&self) -> [f64; 2] {
        [(self.after.0, self.before.0), (self.after.1, self.before.1)]
            .map(|(after, before)| f64::from((f64::from(after) / f64::from(before)) as f32))
    }
}
