//! A random rectangle that is erased: of the bytes, or of the numbers that are emitted.

use std::sync::Arc;

use super::super::canvas::Canvas;
use super::super::chain::{Chain, Whole};
use super::super::fault::Fault;
use super::super::moves::Window;
use super::super::patch::{Patch, Unit, Value};
use super::super::simd::Level;
use super::{Arguments, Op, chance, round};
use crate::core::draws::Normals;
use crate::core::keys::Rng;

const TRIES: usize = 10;

/// What stands in the rectangle afterwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Erased {
    /// A number of each channel.
    Values([f64; 4]),
    /// A normal number of each channel.
    Colour,
    /// A normal number of each channel of each pixel.
    Noise,
}

/// A rectangle of random area, shape and place, erased with a probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomErasing {
    /// The probability.
    pub p: f64,
    /// The part of the image's area that the rectangle has.
    pub scale: (f64, f64),
    /// Its height, divided by its width.
    pub ratio: (f64, f64),
    /// What it becomes.
    pub value: Erased,
    /// What numbers have become where the op stands; None among bytes.
    pub unit: Option<Unit>,
}

impl RandomErasing {
    pub(super) fn new(from: &Arguments) -> Result<Self, String> {
        let value = match from.text("value") {
            Ok("random") => Erased::Noise,
            Ok("color") => Erased::Colour,
            Ok(_) => return from.wrong("value", "numbers, random or color"),
            Err(_) => Erased::Values(of_four(&from.numbers("value")?)),
        };
        let unit = match from.0.get("unit_scale") {
            None => None,
            Some(_) => Some(Unit {
                scale: of_four(&from.numbers("unit_scale")?).map(|number| number as f32),
                bias: of_four(&from.numbers("unit_bias")?).map(|number| number as f32),
            }),
        };
        Ok(Self { p: from.number("p")?, scale: from.pair("scale")?, ratio: from.pair("ratio")?, value, unit })
    }

    /// As torchvision chooses it: ten tries, each of which must leave a row and a column.
    fn part(&self, (width, height): (u32, u32), rng: &mut Rng) -> Option<Window> {
        let area = f64::from(width) * f64::from(height);
        for _ in 0..TRIES {
            let erased = area * rng.uniform_in(self.scale.0, self.scale.1);
            let aspect = rng.uniform_in(self.ratio.0.ln(), self.ratio.1.ln()).exp();
            let (h, w) = (round((erased * aspect).sqrt()), round((erased / aspect).sqrt()));
            if h < height && w < width {
                let y = rng.below(u64::from(height - h) + 1) as i64;
                let x = rng.below(u64::from(width - w) + 1) as i64;
                return Some(Window { x, y, width: w, height: h });
            }
        }
        None
    }
}

impl Op for RandomErasing {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        if !chance(self.p, chain, rng) {
            return;
        }
        let Some(part) = self.part(chain.size(), rng) else { return };
        let drawn = [("top", part.y), ("left", part.x), ("height", part.height.into()), ("width", part.width.into())];
        drawn.into_iter().for_each(|(name, value)| chain.drew(name, value as f64));
        let value = match self.value {
            Erased::Values(values) => Value::Fixed(values),
            Erased::Noise => Value::Noise(rng.bits()),
            Erased::Colour => {
                let mut normals = Normals::new(rng.bits());
                Value::Fixed(std::array::from_fn(|_| normals.draw()))
            }
        };
        match (self.unit, value) {
            (Some(unit), _) => chain.replace(Patch { part, value, unit }),
            (None, Value::Fixed(values)) => chain.whole(Arc::new(Erase { part, fill: chain.fill_of(&values) })),
            (None, Value::Noise(_)) => {}
        }
    }
}

/// A number for each of four channels; those that are missing have the last one's.
fn of_four(numbers: &[f64]) -> [f64; 4] {
    std::array::from_fn(|channel| numbers.get(channel).or(numbers.last()).copied().unwrap_or(0.0))
}

/// The rectangle in bytes.
#[derive(Debug)]
struct Erase {
    part: Window,
    fill: [u8; 4],
}

impl Whole for Erase {
    fn run(&self, canvas: &mut Canvas, _: &mut Canvas, _: Level) -> Result<(), Fault> {
        let (left, top) = (self.part.x as usize, self.part.y as usize);
        for y in top..top + self.part.height as usize {
            for (plane, fill) in (0..canvas.planes()).zip(self.fill) {
                canvas.plane_mut(y, plane)[left..left + self.part.width as usize].fill(fill);
            }
        }
        Ok(())
    }
}
