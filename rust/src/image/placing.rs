//! Where a place of an image goes: what boxes and points are moved by, and the points themselves.

use super::fault::Fault;
use super::moves::{Move, Moved};
use super::simd::Level;

/// How exact the numbers of boxes and points are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Whole numbers: what lies behind the point is cut off, as torchvision does it.
    Whole,
    /// float32.
    Single,
    /// float64.
    Double,
}

impl Precision {
    /// A number, as a column holds it.
    #[must_use]
    pub fn settle(self, number: f64) -> f64 {
        match self {
            Self::Whole => f64::from(number as f32).trunc(),
            Self::Single => f64::from(number as f32),
            Self::Double => number,
        }
    }

    /// As what whole numbers are worked on between two steps.
    #[must_use]
    pub const fn floating(self) -> Self {
        if matches!(self, Self::Whole) { Self::Single } else { self }
    }
}

/// A map of places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placing([f64; 8]);

impl Placing {
    /// That of a move, of those that have one: turns, affine maps and perspectives that can be undone.
    #[must_use]
    pub fn of(moved: &Moved) -> Option<Self> {
        let (width, height) = (f64::from(moved.before.0), f64::from(moved.before.1));
        let linear = |[a, b, c, d, e, f]: [f64; 6]| Some(Self([a, b, c, d, e, f, 0.0, 0.0]));
        match moved.by {
            Move::HalfTurn => linear([-1.0, 0.0, width, 0.0, -1.0, height]),
            Move::QuarterTurn { clockwise: true } => linear([0.0, -1.0, height, 1.0, 0.0, 0.0]),
            Move::QuarterTurn { clockwise: false } => linear([0.0, 1.0, 0.0, -1.0, 0.0, width]),
            Move::Affine(how) => {
                let mut numbers = how.forward(moved.before);
                if moved.after != moved.before {
                    let [a, b, _, d, e, _] = numbers;
                    // All of the image lies inside: its corners begin at 0.
                    numbers[2] = -(a * width).min(0.0) - (b * height).min(0.0);
                    numbers[5] = -(d * width).min(0.0) - (e * height).min(0.0);
                }
                linear(numbers)
            }
            Move::Perspective(numbers) => Self::undone(numbers.map(f64::from)),
            _ => None,
        }
    }

    /// The perspective that leads back: `_compute_perspective_thetas`.
    fn undone([a, b, c, d, e, f, g, h]: [f64; 8]) -> Option<Self> {
        let below = a * e - b * d;
        let numbers =
            [e - f * h, c * h - b, b * f - c * e, f * g - d, a - c * g, c * d - a * f, d * h - e * g, b * g - a * h];
        (below != 0.0).then(|| Self(numbers.map(|number| number / below)))
    }

    /// Where a place goes.
    #[must_use]
    pub fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let Self([a, b, c, d, e, f, g, h]) = *self;
        let below = g * x + h * y + 1.0;
        ((a * x + b * y + c) / below, (d * x + e * y + f) / below)
    }
}

/// The points of one image.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    /// How exact they are.
    pub precision: Precision,
    /// Column and row of each.
    pub points: Vec<(f64, f64)>,
}

impl Points {
    /// Moves them with the pixels, by torchvision v2's rules for its `KeyPoints`; what is no number stays so.
    ///
    /// # Errors
    /// If the process may not have the memory.
    pub fn follow(&mut self, moved: &Moved) -> Result<(), Fault> {
        let (width, height) = (f64::from(moved.before.0), f64::from(moved.before.1));
        match moved.by {
            Move::Crop(window) | Move::Around(window, _) => {
                self.each(|(x, y)| (x - window.x as f64, y - window.y as f64));
            }
            Move::Resize => {
                let [by_x, by_y] = moved.ratios();
                self.each(|(x, y)| (x * by_x, y * by_y));
            }
            Move::FlipHorizontal => self.each(|(x, y)| (width - 1.0 - x, y)),
            Move::FlipVertical => self.each(|(x, y)| (x, height - 1.0 - y)),
            Move::HalfTurn | Move::QuarterTurn { .. } | Move::Affine(_) | Move::Perspective(_) => {
                let Some(placing) = Placing::of(moved) else { return Ok(()) };
                self.each(|point| placing.place(point));
            }
            Move::Elastic(by) => {
                let field = by.field(moved.before, Level::best())?;
                self.each(|(x, y)| {
                    if x.is_nan() || y.is_nan() {
                        return (x, y);
                    }
                    let (x, y) = (x.trunc().clamp(0.0, width - 1.0), y.trunc().clamp(0.0, height - 1.0));
                    let (right, down) = field.displacement(x as u32, y as u32);
                    (x - f64::from(right), y - f64::from(down))
                });
            }
        }
        Ok(())
    }

    fn each(&mut self, place: impl Fn((f64, f64)) -> (f64, f64)) {
        let precision = self.precision;
        for point in &mut self.points {
            let (x, y) = place(*point);
            *point = (precision.settle(x), precision.settle(y));
        }
    }
}
