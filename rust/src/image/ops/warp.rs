//! Affine warps: what ops and policies do them with, on a chain ([`affine`], [`rotate`]) or on a canvas ([`affine_of`], [`rotation_of`]).

use std::sync::Arc;

use super::super::affine::Affine;
use super::super::canvas::Canvas;
use super::super::chain::{Chain, Whole, Window};
use super::super::fault::Fault;
use super::super::mode::Mode;
use super::super::moves::Move;
use super::super::simd::Level;
use super::super::warp::{Map, Sampling, Taking, warped};
use super::Arguments;

/// How a warped image looks between pixels, and outside of what there was.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// Between pixels.
    pub sampling: Sampling,
    /// Outside: a number for all channels, or one for each. None is black, and is not blended again into what bilinear sampling darkens at the edges.
    pub fill: Option<Vec<f64>>,
}

impl Look {
    /// Of "interpolation" and "fill".
    pub(super) fn new(from: &Arguments) -> Result<Self, String> {
        let sampling = match from.text("interpolation")? {
            "nearest" => Sampling::Nearest,
            "bilinear" => Sampling::Bilinear,
            other => return Err(format!("\"interpolation\" is {other:?}, instead of nearest or bilinear")),
        };
        Ok(Self { sampling, fill: fill(from)? })
    }

    /// The same, in the bytes of a mode.
    #[must_use]
    pub fn taking(&self, mode: Mode) -> Taking {
        let fill = self.fill.as_deref();
        let number = |channel: usize| fill.and_then(|fill| fill.get(channel).or(fill.last())).copied().unwrap_or(0.0);
        let border = if mode.is_wide() {
            let [first, second] = (number(0).round_ties_even().clamp(0.0, 65_535.0) as u16).to_ne_bytes();
            [first, second, 0, 0]
        } else {
            std::array::from_fn(|channel| number(channel).round_ties_even().clamp(0.0, 255.0) as u8)
        };
        let fill = fill.is_some().then(|| std::array::from_fn(|channel| number(channel) as f32));
        Taking { sampling: self.sampling, border, fill }
    }
}

/// The numbers of "fill", if there are any.
pub(super) fn fill(from: &Arguments) -> Result<Option<Vec<f64>>, String> {
    if from.0.contains_key("fill") { from.numbers("fill").map(Some) } else { Ok(None) }
}

/// Two numbers that need not be there.
pub(super) fn optional_pair(from: &Arguments, name: &str) -> Result<Option<(f64, f64)>, String> {
    if from.0.contains_key(name) { from.pair(name).map(Some) } else { Ok(None) }
}

/// An image of another size, whose pixels a map finds.
#[derive(Clone, Copy, Debug)]
pub struct Warp<M> {
    /// Where they stood.
    pub map: M,
    /// Width and height of the result.
    pub size: (u32, u32),
    /// How they are taken.
    pub taking: Taking,
}

impl<M: Map + std::fmt::Debug + Send + Sync> Whole for Warp<M> {
    fn size(&self, _: (u32, u32)) -> (u32, u32) {
        self.size
    }

    fn run(&self, canvas: &mut Canvas, spare: &mut Canvas, level: Level) -> Result<(), Fault> {
        warped(&self.map, self.size, &self.taking, canvas, spare, level)
    }
}

/// An affine warp of an image of the given size and mode, which keeps its size.
#[must_use]
pub fn affine_of(size: (u32, u32), mode: Mode, how: &Affine, look: &Look) -> Arc<dyn Whole> {
    warp_of(size, size, mode, how, look)
}

/// An affine warp of an image of the size `from` to one of `size`.
pub(super) fn warp_of(from: (u32, u32), size: (u32, u32), mode: Mode, how: &Affine, look: &Look) -> Arc<dyn Whole> {
    Arc::new(Warp { map: how.map(from, size), size, taking: look.taking(mode) })
}

/// An affine warp as torchvision's `affine`: ShearX is a shear of (degrees, 0) with the centre (0, 0), TranslateX a translation of (pixels, 0). What does no more than
/// to move an image by whole pixels streams as a crop, and needs no canvas.
pub fn affine(chain: &mut Chain, how: &Affine, look: &Look) {
    let ((x, y), (width, height)) = (how.translate, chain.size());
    if how.only_translates() && x.fract() == 0.0 && y.fract() == 0.0 {
        if (x, y) != (0.0, 0.0) {
            let border = look.taking(chain.row().mode).border;
            chain.crop_filled(Window { x: -(x as i64), y: -(y as i64), width, height }, border);
        }
        return;
    }
    let warp = affine_of(chain.size(), chain.row().mode, how, look);
    chain.move_whole(Move::Affine(*how), warp);
}

/// A rotation by so many degrees, anticlockwise, of an image of the given size and mode, which keeps its size.
#[must_use]
pub fn rotation_of(size: (u32, u32), mode: Mode, angle: f64, look: &Look) -> Arc<dyn Whole> {
    affine_of(size, mode, &turn(angle, None), look)
}

const fn turn(angle: f64, center: Option<(f64, f64)>) -> Affine {
    Affine { angle: -angle, translate: (0.0, 0.0), scale: 1.0, shear: (0.0, 0.0), center }
}

/// A rotation as torchvision's `rotate`, anticlockwise: exact by multiples of 90 degrees around the middle (90 and 270 of what is square or expands).
pub fn rotate(chain: &mut Chain, angle: f64, look: &Look, expand: bool, center: Option<(f64, f64)>) {
    let angle = angle.rem_euclid(360.0);
    let (width, height) = chain.size();
    if center.is_none() {
        if angle == 0.0 {
            return;
        }
        if angle == 180.0 {
            return chain.half_turn();
        }
        if (angle == 90.0 || angle == 270.0) && (expand || width == height) {
            let clockwise = angle == 270.0;
            return chain.move_whole(Move::QuarterTurn { clockwise }, Arc::new(QuarterTurn { clockwise }));
        }
    }
    let (how, from) = (turn(angle, center), chain.size());
    let size = if expand { how.expanded(from) } else { from };
    let warp = warp_of(from, size, chain.row().mode, &how, look);
    chain.move_whole(Move::Affine(how), warp);
}

/// Columns become rows.
#[derive(Clone, Copy, Debug)]
pub struct QuarterTurn {
    /// Or anticlockwise.
    pub clockwise: bool,
}

impl Whole for QuarterTurn {
    fn size(&self, before: (u32, u32)) -> (u32, u32) {
        (before.1, before.0)
    }

    fn run(&self, canvas: &mut Canvas, spare: &mut Canvas, _: Level) -> Result<(), Fault> {
        let (width, height) = (canvas.width(), canvas.height());
        spare.reset(self.size(canvas.size()), canvas.planes())?;
        let line = canvas.line();
        for plane in 0..canvas.planes() {
            let from = &canvas.bytes()[plane * canvas.pitch()..];
            for y in 0..width {
                let column = if self.clockwise { y } else { width - 1 - y };
                let to = spare.plane_mut(y, plane);
                for (x, to) in to.iter_mut().enumerate() {
                    let row = if self.clockwise { height - 1 - x } else { x };
                    *to = from[row * line + column];
                }
            }
        }
        std::mem::swap(canvas, spare);
        Ok(())
    }
}
