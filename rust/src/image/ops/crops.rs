//! Several crops of one image, one below another.

use std::sync::Arc;

use super::super::canvas::Canvas;
use super::super::chain::{Chain, Whole};
use super::super::fault::Fault;
use super::super::moves::Window;
use super::super::simd::Level;
use super::crop::centre;
use super::{Arguments, Op};
use crate::core::keys::Rng;

/// Along which axis an image is mirrored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mirrored {
    /// Left and right change places.
    Horizontally,
    /// Top and bottom do.
    Vertically,
}

/// Each corner and the centre; with `mirrored`, those of the mirrored image behind them. The result is as wide as one of them, and as high as all:
///
/// ```text
/// a · b        a      upper left
/// · e ·   →    b      upper right
/// c · d        c, d   lower left and right
///              e      centre
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crops {
    /// Rows and columns of each.
    pub size: (u32, u32),
    /// See [`Crops`].
    pub mirrored: Option<Mirrored>,
}

impl Crops {
    pub(super) fn five(from: &Arguments) -> Result<Self, String> {
        Ok(Self { size: from.size("size")?, mirrored: None })
    }

    pub(super) fn ten(from: &Arguments) -> Result<Self, String> {
        let mirrored = if from.switch("vertical_flip")? { Mirrored::Vertically } else { Mirrored::Horizontally };
        Ok(Self { size: from.size("size")?, mirrored: Some(mirrored) })
    }

    /// The parts of an image of this width and height.
    fn parts(&self, size: (u32, u32)) -> [Window; 5] {
        let (height, width) = self.size;
        let (right, below) = (i64::from(size.0) - i64::from(width), i64::from(size.1) - i64::from(height));
        let at = |x, y| Window { x, y, width, height };
        [at(0, 0), at(right, 0), at(0, below), at(right, below), centre(size, (width, height))]
    }
}

impl Op for Crops {
    fn apply(&self, chain: &mut Chain, _: &mut Rng) {
        let (height, width) = self.size;
        if chain.size().0 < width || chain.size().1 < height {
            chain.fail(|size| {
                let found = format!("an image of {} × {} pixels (width × height), of which crops of {width} × {height} were to be taken", size.0, size.1);
                Fault::new(found, "resize images before, or take smaller crops")
            });
        }
        chain.whole(Arc::new(*self));
    }
}

impl Whole for Crops {
    fn size(&self, _: (u32, u32)) -> (u32, u32) {
        let all = if self.mirrored.is_some() { 10 } else { 5 };
        (self.size.1, self.size.0.saturating_mul(all))
    }

    fn run(&self, canvas: &mut Canvas, spare: &mut Canvas, _: Level) -> Result<(), Fault> {
        spare.reset(self.size(canvas.size()), canvas.planes())?;
        let (parts, mut row) = (self.parts(canvas.size()), 0);
        for mirrored in [None, self.mirrored].into_iter().take(1 + usize::from(self.mirrored.is_some())) {
            for part in parts {
                for line in 0..part.height as usize {
                    let y = part.y as usize + line;
                    let y = if mirrored == Some(Mirrored::Vertically) { canvas.height() - 1 - y } else { y };
                    (0..canvas.planes()).for_each(|plane| {
                        copy(canvas.plane(y, plane), part, mirrored, spare.plane_mut(row, plane));
                    });
                    row += 1;
                }
            }
        }
        std::mem::swap(canvas, spare);
        Ok(())
    }
}

/// The columns of a part of one row, of one plane.
fn copy(from: &[u8], part: Window, mirrored: Option<Mirrored>, to: &mut [u8]) {
    let (x, width) = (part.x as usize, part.width as usize);
    if mirrored == Some(Mirrored::Horizontally) {
        let from = &from[from.len() - x - width..][..width];
        to.iter_mut().zip(from.iter().rev()).for_each(|(to, from)| *to = *from);
    } else {
        to.copy_from_slice(&from[x..][..width]);
    }
}
