//! Boxes beside an image: what becomes of them where its pixels move, and of those that it leaves, by torchvision v2's rules for its `BoundingBoxes`.
//!
//! Numbers are worked on as float64, and rounded behind each step to what the column holds.

use super::fault::Fault;
use super::moves::{Move, Moved};
use super::placing::{Placing, Precision};
use super::simd::Level;

/// What the four numbers of a box are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoxFormat {
    /// The left, upper, right and lower edge.
    Xyxy,
    /// The left and upper edge, width and height.
    Xywh,
    /// The middle, width and height.
    Cxcywh,
}

impl BoxFormat {
    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let known = [("XYXY", Self::Xyxy), ("XYWH", Self::Xywh), ("CXCYWH", Self::Cxcywh)];
        known.into_iter().find(|(known, _)| *known == name).map(|(_, format)| format)
    }

    /// A box's edges.
    fn edges(self, [a, b, c, d]: [f64; 4], precision: Precision) -> [f64; 4] {
        match self {
            Self::Xyxy => [a, b, c, d],
            Self::Xywh => [a, b, a + c, b + d].map(|number| precision.settle(number)),
            Self::Cxcywh => {
                let rounded = |number| precision.floating().settle(number);
                let (left, top) = (rounded(a - c / 2.0), rounded(b - d / 2.0));
                [left, top, left + c, top + d].map(|number| precision.settle(number))
            }
        }
    }

    /// A box of these edges.
    fn of_edges(self, [left, top, right, bottom]: [f64; 4], precision: Precision) -> [f64; 4] {
        let rounded = |number| precision.floating().settle(number);
        let (width, height) = (rounded(right - left), rounded(bottom - top));
        let middle = |first: f64, side: f64| {
            let middle = rounded(first * 2.0 + side) / 2.0;
            if precision == Precision::Whole { middle.floor() } else { middle }
        };
        match self {
            Self::Xyxy => [left, top, right, bottom],
            Self::Xywh => [left, top, width, height],
            Self::Cxcywh => [middle(left, width), middle(top, height), width, height],
        }
    }
}

/// What is done to boxes whose image is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BoxStep {
    /// What lies outside of the image is cut off.
    Clamp,
    /// Those that are too small, or lie outside, are dropped.
    Sanitize {
        /// Least width, and least height.
        min_size: f64,
        /// Least area.
        min_area: f64,
    },
    /// Into another format.
    Convert(BoxFormat),
}

/// The boxes of one image.
#[derive(Clone, Debug, PartialEq)]
pub struct Boxes {
    /// What their numbers are.
    pub format: BoxFormat,
    /// How exact they are.
    pub precision: Precision,
    /// Four numbers each.
    pub boxes: Vec<[f64; 4]>,
}

impl Boxes {
    /// The left, upper, right and lower edge of each.
    pub fn edges(&self) -> impl Iterator<Item = [f64; 4]> + '_ {
        self.boxes.iter().map(|&one| self.format.edges(one, self.precision))
    }

    /// Moves them with the pixels.
    ///
    /// # Errors
    /// If the process may not have the memory.
    pub fn follow(&mut self, moved: &Moved) -> Result<(), Fault> {
        let (width, height) = (f64::from(moved.before.0), f64::from(moved.before.1));
        match moved.by {
            Move::Crop(window) | Move::Around(window, _) => {
                let (x, y) = (window.x as f64, window.y as f64);
                let by = if self.format == BoxFormat::Xyxy { [x, y, x, y] } else { [x, y, 0.0, 0.0] };
                self.each(|one| std::array::from_fn(|place| one[place] - by[place]));
                self.clamp(moved.after);
            }
            Move::Resize => {
                let [x, y] = moved.ratios();
                self.each(|[a, b, c, d]| [a * x, b * y, c * x, d * y]);
            }
            Move::FlipHorizontal => self.mirror(0, width),
            Move::FlipVertical => self.mirror(1, height),
            Move::HalfTurn | Move::QuarterTurn { .. } | Move::Affine(_) => {
                let Some(placing) = Placing::of(moved) else { return Ok(()) };
                self.warp(self.precision.floating(), moved.after, |point| placing.place(point));
            }
            Move::Perspective(_) => {
                let Some(placing) = Placing::of(moved) else { return Ok(()) };
                self.warp(self.precision, moved.after, |point| placing.place(point));
            }
            Move::Elastic(by) => {
                let field = by.field(moved.before, Level::best())?;
                let precision = self.precision;
                self.warp(precision, moved.after, |(x, y)| {
                    let (x, y) = (x.ceil().clamp(0.0, width - 1.0), y.ceil().clamp(0.0, height - 1.0));
                    let (right, down) = field.displacement(x as u32, y as u32);
                    (precision.settle(x - f64::from(right)), precision.settle(y - f64::from(down)))
                });
            }
        }
        Ok(())
    }

    /// Does the rest to them, once their image has this width and height; `kept`: the numbers of those that are left, among those that there were.
    pub fn finish(&mut self, steps: &[BoxStep], size: (u32, u32)) -> Vec<usize> {
        let mut kept: Vec<usize> = (0..self.boxes.len()).collect();
        for step in steps {
            match *step {
                BoxStep::Clamp => self.clamp(size),
                BoxStep::Convert(format) => {
                    let (precision, from) = (self.precision, self.format);
                    if from != format {
                        self.each(|one| format.of_edges(from.edges(one, precision), precision));
                        self.format = format;
                    }
                }
                BoxStep::Sanitize { min_size, min_area } => {
                    let is_good: Vec<bool> =
                        self.edges().map(|edges| is_valid(edges, size, min_size, min_area)).collect();
                    let mut good = is_good.iter();
                    self.boxes.retain(|_| *good.next().unwrap_or(&false));
                    let mut good = is_good.iter();
                    kept.retain(|_| *good.next().unwrap_or(&false));
                }
            }
        }
        kept
    }

    fn each(&mut self, step: impl Fn([f64; 4]) -> [f64; 4]) {
        let precision = self.precision;
        self.boxes.iter_mut().for_each(|one| *one = step(*one).map(|number| precision.settle(number)));
    }

    /// Along the axis 0 (left and right) or 1.
    fn mirror(&mut self, axis: usize, side: f64) {
        let format = self.format;
        self.each(|mut one| {
            match format {
                BoxFormat::Xyxy => (one[axis], one[axis + 2]) = (side - one[axis + 2], side - one[axis]),
                BoxFormat::Xywh => one[axis] = side - (one[axis] + one[axis + 2]),
                BoxFormat::Cxcywh => one[axis] = side - one[axis],
            }
            one
        });
    }

    fn clamp(&mut self, size: (u32, u32)) {
        let (format, precision) = (self.format, self.precision.floating());
        self.each(|one| format.of_edges(clamped(format.edges(one, precision), size), precision));
    }

    /// What holds the four corners where they went. `precision`: of the edges before.
    fn warp(&mut self, precision: Precision, size: (u32, u32), place: impl Fn((f64, f64)) -> (f64, f64)) {
        let (format, floating) = (self.format, self.precision.floating());
        self.each(|one| {
            let [left, top, right, bottom] = format.edges(one, precision);
            let corners = [(left, top), (right, top), (right, bottom), (left, bottom)].map(&place);
            let lowest =
                corners.into_iter().fold((f64::INFINITY, f64::INFINITY), |(x, y), (a, b)| (x.min(a), y.min(b)));
            let highest =
                corners.into_iter().fold((f64::NEG_INFINITY, f64::NEG_INFINITY), |(x, y), (a, b)| (x.max(a), y.max(b)));
            format.of_edges(clamped([lowest.0, lowest.1, highest.0, highest.1], size), floating)
        });
    }
}

fn clamped([left, top, right, bottom]: [f64; 4], size: (u32, u32)) -> [f64; 4] {
    let (width, height) = (f64::from(size.0), f64::from(size.1));
    [left.clamp(0.0, width), top.clamp(0.0, height), right.clamp(0.0, width), bottom.clamp(0.0, height)]
}

fn is_valid([left, top, right, bottom]: [f64; 4], size: (u32, u32), min_size: f64, min_area: f64) -> bool {
    let (width, height) = (right - left, bottom - top);
    let (most_x, most_y) = (f64::from(size.0), f64::from(size.1));
    let is_large = width >= min_size && height >= min_size && width * height >= min_area;
    let is_inside = [left, top, right, bottom].iter().all(|&edge| edge >= 0.0);
    is_large && is_inside && left <= most_x && right <= most_x && top <= most_y && bottom <= most_y
}

/// The boxes of many images, one after the other.
#[derive(Clone, Debug)]
pub struct BoxColumn {
    boxes: Boxes,
    ends: Vec<usize>,
}

impl BoxColumn {
    /// `ends`: where each image's boxes begin, and where the last one's end; None if these are not among the boxes, in order.
    #[must_use]
    pub fn new(boxes: Boxes, ends: Vec<usize>) -> Option<Self> {
        let are_edges = ends.is_sorted() && ends.last().is_some_and(|&end| end <= boxes.boxes.len());
        are_edges.then_some(Self { boxes, ends })
    }

    /// How many images there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.ends.len() - 1
    }

    /// Where an image's boxes begin.
    #[must_use]
    pub fn begin(&self, row: usize) -> usize {
        self.ends[row]
    }

    /// Those of one image.
    #[must_use]
    pub fn row(&self, row: usize) -> Boxes {
        let boxes = self.boxes.boxes[self.ends[row]..self.ends[row + 1]].to_vec();
        Boxes { boxes, format: self.boxes.format, precision: self.boxes.precision }
    }
}

#[cfg(test)]
mod tests {
    use super::super::affine::Affine;
    use super::super::moves::Window;
    use super::*;
    use proptest::prelude::*;

    fn moved(which: usize, before: (u32, u32), number: f64) -> Moved {
        let window = Window { x: number as i64 - 20, y: 3, width: 30, height: 20 };
        let affine = Affine { angle: number * 9.0, scale: 0.5 + number / 40.0, ..Affine::default() };
        let by = match which {
            0 => Move::Crop(window),
            1 => Move::Resize,
            2 => Move::FlipHorizontal,
            3 => Move::FlipVertical,
            4 => Move::HalfTurn,
            5 => Move::QuarterTurn { clockwise: number > 20.0 },
            _ => Move::Affine(affine),
        };
        let after = match which {
            0 => (30, 20),
            1 => (1 + number as u32, 55),
            5 => (before.1, before.0),
            _ => before,
        };
        Moved { number: 0, before, after, by }
    }

    proptest! {
        /// A box inside of its image stays inside, wherever its pixels go, and in every format it is the same box (ratios of sizes are float32, as in torchvision).
        #[test]
        fn boxes_stay_inside_and_are_the_same_in_every_format(
            corners in prop::collection::vec((0.0..40.0, 0.0..30.0, 0.0..20.0, 0.0..15.0), 0..4),
            steps in prop::collection::vec((0_usize..7, 0.0..40.0), 0..5),
        ) {
            let edges: Vec<[f64; 4]> = corners.into_iter().map(|(x, y, w, h)| [x, y, x + w, y + h]).collect();
            let mut every: Vec<Boxes> = [BoxFormat::Xyxy, BoxFormat::Xywh, BoxFormat::Cxcywh]
                .into_iter()
                .map(|format| {
                    let mut boxes = Boxes { format: BoxFormat::Xyxy, precision: Precision::Double, boxes: edges.clone() };
                    boxes.finish(&[BoxStep::Convert(format)], (60, 45));
                    boxes
                })
                .collect();
            let mut size = (60, 45);
            for (which, number) in steps {
                let moved = moved(which, size, number);
                size = moved.after;
                every.iter_mut().for_each(|boxes| boxes.follow(&moved).unwrap());
            }
            let wanted: Vec<[f64; 4]> = every[0].edges().collect();
            for edges in &wanted {
                let [left, top, right, bottom] = *edges;
                prop_assert!(left >= -1e-3 && left <= right + 1e-3 && right <= f64::from(size.0) + 1e-3);
                prop_assert!(top >= -1e-3 && top <= bottom + 1e-3 && bottom <= f64::from(size.1) + 1e-3);
            }
            for boxes in &every[1..] {
                for (one, other) in boxes.edges().zip(&wanted) {
                    prop_assert!(one.iter().zip(other).all(|(a, b)| (a - b).abs() < 1e-3));
                }
            }
        }
    }
}
