//! Margins, and crops that may reach into them.

use std::sync::Arc;

use super::super::canvas::Canvas;
use super::super::chain::{Chain, Whole};
use super::super::elastic::reflected;
use super::super::fault::Fault;
use super::super::moves::{Border, Move, Window};
use super::super::simd::Level;
use super::{Arguments, Op, chance};
use crate::core::keys::Rng;

/// What stands in a margin.
#[derive(Clone, Debug, PartialEq)]
pub enum Margin {
    /// A number for all channels, or one for each.
    Constant(Vec<f64>),
    /// The image itself.
    Image(Border),
}

impl Margin {
    fn new(from: &Arguments) -> Result<Self, String> {
        Ok(match from.text("padding_mode")? {
            "constant" => Self::Constant(from.numbers("fill")?),
            "edge" => Self::Image(Border::Edge),
            "reflect" => Self::Image(Border::Reflect),
            "symmetric" => Self::Image(Border::Symmetric),
            other => {
                return Err(format!("\"padding_mode\" is {other:?}, instead of constant, edge, reflect or symmetric"));
            }
        })
    }

    fn window(&self, chain: &mut Chain, window: Window) {
        match self {
            Self::Constant(fill) => chain.crop_filled(window, chain.fill_of(fill)),
            _ if window.intersect(Window::whole(chain.size())) == window => chain.crop(window),
            Self::Image(border) => {
                chain.move_whole(Move::Around(window, *border), Arc::new(Around { window, border: *border }));
            }
        }
    }
}

/// A part of an image that goes on outside.
#[derive(Clone, Copy, Debug)]
pub struct Around {
    /// The part.
    pub window: Window,
    /// How it goes on.
    pub border: Border,
}

impl Around {
    /// For each of `count` places from `start` on, which one of `length` stands there.
    fn places(&self, start: i64, count: u32, length: usize) -> Vec<usize> {
        let (last, length_twice) = (length as i64 - 1, 2 * length as i64);
        let place = |place: i64| match self.border {
            Border::Edge => place.clamp(0, last) as usize,
            Border::Reflect => reflected(place, length),
            Border::Symmetric => {
                let place = place.rem_euclid(length_twice);
                place.min(length_twice - 1 - place) as usize
            }
        };
        (start..start + i64::from(count)).map(place).collect()
    }
}

impl Whole for Around {
    fn size(&self, _: (u32, u32)) -> (u32, u32) {
        (self.window.width, self.window.height)
    }

    fn run(&self, canvas: &mut Canvas, spare: &mut Canvas, _: Level) -> Result<(), Fault> {
        let Window { x, y, width, height } = self.window;
        let (columns, rows) = (self.places(x, width, canvas.width()), self.places(y, height, canvas.height()));
        spare.reset((width, height), canvas.planes())?;
        // What lies inside is copied as it is.
        let first = (-x).clamp(0, i64::from(width)) as usize;
        let last = (canvas.width() as i64 - x).clamp(first as i64, i64::from(width)) as usize;
        for (y, &row) in rows.iter().enumerate() {
            for plane in 0..canvas.planes() {
                let (from, to) = (canvas.plane(row, plane), spare.plane_mut(y, plane));
                if first < last {
                    to[first..last].copy_from_slice(&from[columns[first]..][..last - first]);
                }
                for place in (0..first).chain(last..columns.len()) {
                    to[place] = from[columns[place]];
                }
            }
        }
        std::mem::swap(canvas, spare);
        Ok(())
    }
}

/// Left, top, right and bottom; negative ones take pixels away.
type Sides = [i64; 4];

fn sides(from: &Arguments) -> Result<Sides, String> {
    let numbers = from.numbers("padding")?;
    let numbers: [f64; 4] = numbers.try_into().map_err(|_| String::from("\"padding\" is not four numbers"))?;
    Ok(numbers.map(|number| number as i64))
}

/// The image with a margin around; None if nothing is left.
fn padded(size: (u32, u32), [left, top, right, bottom]: Sides) -> Option<Window> {
    let width = u32::try_from(i64::from(size.0) + left + right).ok()?;
    let height = u32::try_from(i64::from(size.1) + top + bottom).ok()?;
    Some(Window { x: -left, y: -top, width, height }).filter(|window| !window.is_empty())
}

/// The image with a margin around.
#[derive(Clone, Debug, PartialEq)]
pub struct Pad {
    /// How wide it is.
    pub padding: Sides,
    /// What stands in it.
    pub margin: Margin,
}

impl Pad {
    pub(super) fn new(from: &Arguments) -> Result<Self, String> {
        Ok(Self { padding: sides(from)?, margin: Margin::new(from)? })
    }
}

impl Op for Pad {
    fn apply(&self, chain: &mut Chain, _: &mut Rng) {
        match padded(chain.size(), self.padding) {
            Some(window) => self.margin.window(chain, window),
            None => chain.fail(|(width, height)| {
                Fault::new(
                    format!("an image of {width} × {height} pixels (width × height), of which a negative margin leaves nothing"),
                    "give Pad a smaller negative padding, or Resize first",
                )
            }),
        }
    }
}

/// A random part of the image with a margin around.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomCrop {
    /// Rows and columns of the part.
    pub size: (u32, u32),
    /// The margin.
    pub padding: Sides,
    /// Whether a side that is too short gets as much on both ends as it lacks.
    pub pad_if_needed: bool,
    /// What stands in the margin.
    pub margin: Margin,
}

impl RandomCrop {
    pub(super) fn new(from: &Arguments) -> Result<Self, String> {
        Ok(Self {
            size: from.size("size")?,
            padding: if from.0.contains_key("padding") { sides(from)? } else { [0; 4] },
            pad_if_needed: from.switch("pad_if_needed")?,
            margin: Margin::new(from)?,
        })
    }
}

impl Op for RandomCrop {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        let (height, width) = self.size;
        let [left, top, right, bottom] = self.padding;
        let around = (i64::from(chain.size().0) + left + right, i64::from(chain.size().1) + top + bottom);
        let lacking = (i64::from(width) - around.0, i64::from(height) - around.1);
        let more = if self.pad_if_needed { (lacking.0.max(0), lacking.1.max(0)) } else { (0, 0) };
        let free = (2 * more.0 - lacking.0, 2 * more.1 - lacking.1);
        if free.0 < 0 || free.1 < 0 {
            chain.fail(|(width, height)| {
                Fault::new(
                    format!(
                        "an image of {width} × {height} pixels (width × height), smaller than RandomCrop(({}, {}))",
                        self.size.0, self.size.1
                    ),
                    "say pad_if_needed=True, or Resize first",
                )
            });
            // What follows is told the size that it expects.
            return chain.crop(Window { x: 0, y: 0, width, height });
        }
        let y = if free.1 > 0 { rng.below(free.1 as u64 + 1) as i64 } else { 0 };
        let x = if free.0 > 0 { rng.below(free.0 as u64 + 1) as i64 } else { 0 };
        chain.drew("top", y as f64);
        chain.drew("left", x as f64);
        let part = Window { x: x - left - more.0, y: y - top - more.1, width, height };
        self.margin.window(chain, part);
    }
}

/// The image somewhere in a larger one.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomZoomOut {
    /// What stands around.
    pub fill: Vec<f64>,
    /// Range of times as large.
    pub side_range: (f64, f64),
    /// The probability.
    pub p: f64,
}

impl RandomZoomOut {
    pub(super) fn new(from: &Arguments) -> Result<Self, String> {
        Ok(Self { fill: from.numbers("fill")?, side_range: from.pair("side_range")?, p: from.number("p")? })
    }
}

impl Op for RandomZoomOut {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        if !chance(self.p, chain, rng) {
            return;
        }
        // torchvision computes sizes in float32.
        let times = rng.uniform_in(self.side_range.0, self.side_range.1) as f32;
        let larger = |side: u32| ((side as f32 * times) as u32).max(side);
        let (before, size) = (chain.size(), (larger(chain.size().0), larger(chain.size().1)));
        let mut place = |free: u32| (f64::from(free) * rng.uniform()) as i64;
        let (left, top) = (place(size.0 - before.0), place(size.1 - before.1));
        let named = [("width", i64::from(size.0)), ("height", i64::from(size.1)), ("left", left), ("top", top)];
        named.into_iter().for_each(|(name, value)| chain.drew(name, value as f64));
        chain.crop_filled(Window { x: -left, y: -top, width: size.0, height: size.1 }, chain.fill_of(&self.fill));
    }
}
