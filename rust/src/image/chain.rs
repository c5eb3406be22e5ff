//! Crops, resizes and flips of one image, composed to as few passes over its pixels as possible.

use std::fmt::Debug;
use std::sync::Arc;

use super::fault::Fault;
use super::filter::{Filter, Scaling};
use super::resample::{Planes, Task};
use crate::core::geometry::Rect;

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
    const fn whole(size: (u32, u32)) -> Self {
        Self { x: 0, y: 0, width: size.0, height: size.1 }
    }

    fn intersect(self, other: Self) -> Self {
        let (x, y) = (self.x.max(other.x), self.y.max(other.y));
        let right = (self.x + i64::from(self.width)).min(other.x + i64::from(other.width));
        let bottom = (self.y + i64::from(self.height)).min(other.y + i64::from(other.height));
        Self { x, y, width: (right - x).max(0) as u32, height: (bottom - y).max(0) as u32 }
    }

    const fn is_empty(self) -> bool {
        self.width == 0 || self.height == 0
    }
}

/// Other colours for the same pixels.
pub trait Recolour: Debug + Send + Sync {
    /// Writes a row's planes, one or three that fill `out`, with the pitch of `planes`.
    fn row(&self, planes: Planes<'_>, out: &mut [u8]);

    /// Whether black stays black, as it is around an image that is smaller than its crop.
    fn keeps_zero(&self) -> bool {
        true
    }
}

/// One pass over an image: crop, resize, window, flip, other colours, and zeros around.
#[derive(Clone, Debug)]
pub struct Pass {
    /// The part of the image that is looked at; nothing outside of it has any influence.
    pub crop: Rect,
    /// The resize of the crop; None if the result is all zeros.
    pub task: Option<Task>,
    /// Width and height of the result.
    pub size: (u32, u32),
    /// Where the task's window stands in the result; zeros are around it.
    pub offset: (u32, u32),
    /// What its colours go through, one after another.
    pub colours: Vec<Arc<dyn Recolour>>,
}

/// The composition so far; every method sees the image as the methods before have left it.
#[derive(Clone, Debug)]
pub struct Chain {
    passes: Vec<Pass>,
    crop: Rect,
    target: (u32, u32),
    scaling: Option<Scaling>,
    mirrored: (bool, bool),
    window: Window,
    valid: Window,
    flip: (bool, bool),
    colours: Vec<Arc<dyn Recolour>>,
}

const UNSCALED: Scaling = Scaling { filter: Filter::Nearest, antialias: false };

impl Chain {
    /// An image of the given width and height.
    #[must_use]
    pub const fn new(size: (u32, u32)) -> Self {
        Self {
            passes: Vec::new(),
            crop: Rect { x: 0, y: 0, width: size.0, height: size.1 },
            target: size,
            scaling: None,
            mirrored: (false, false),
            window: Window::whole(size),
            valid: Window::whole(size),
            flip: (false, false),
            colours: Vec::new(),
        }
    }

    /// Width and height of the image as it is now.
    #[must_use]
    pub const fn size(&self) -> (u32, u32) {
        (self.window.width, self.window.height)
    }

    /// Mirrors left and right.
    pub const fn flip_horizontal(&mut self) {
        self.flip.0 = !self.flip.0;
    }

    /// Mirrors top and bottom.
    pub const fn flip_vertical(&mut self) {
        self.flip.1 = !self.flip.1;
    }

    /// Changes the colours of all pixels.
    pub fn recolour(&mut self, colours: Arc<dyn Recolour>) {
        if self.valid != self.window && !colours.keeps_zero() {
            self.end_pass();
        }
        self.colours.push(colours);
    }

    /// Keeps a part of the image; where the part lies outside, there are zeros.
    pub fn crop(&mut self, part: Window) {
        let (width, height) = (i64::from(self.window.width), i64::from(self.window.height));
        let x = if self.flip.0 { width - part.x - i64::from(part.width) } else { part.x };
        let y = if self.flip.1 { height - part.y - i64::from(part.height) } else { part.y };
        self.window = Window { x: self.window.x + x, y: self.window.y + y, ..part };
        self.valid = self.valid.intersect(self.window);
    }

    /// Resizes to the given width and height.
    pub fn resize(&mut self, size: (u32, u32), scaling: Scaling) {
        if size == self.size() {
            return;
        }
        if self.scaling.is_some() || self.valid != self.window || !self.colours.is_empty() {
            self.end_pass();
        }
        // Unscaled and unpadded: the window lies inside the crop.
        self.crop = Rect {
            x: self.crop.x + self.window.x as u32,
            y: self.crop.y + self.window.y as u32,
            width: self.window.width,
            height: self.window.height,
        };
        (self.target, self.scaling) = (size, Some(scaling));
        (self.mirrored, self.flip) = (self.flip, (false, false));
        self.window = Window::whole(size);
        self.valid = self.window;
    }

    /// The passes, the first over the source and each other over the result before it; at least one.
    ///
    /// # Errors
    /// If an image between two passes, or an edge of the result, would be larger than `pixels_limit`.
    pub fn finish(mut self, pixels_limit: u64) -> Result<Vec<Pass>, Fault> {
        self.end_pass();
        let between = &self.passes[..self.passes.len() - 1];
        let largest = between.iter().map(|pass| u64::from(pass.size.0) * u64::from(pass.size.1)).max();
        match largest {
            Some(pixels) if pixels > pixels_limit => Err(Fault::new(
                format!("an intermediate image of {pixels} pixels, above the limit of {pixels_limit}"),
                "give Resize a max_size, or crop first",
            )),
            _ => Ok(self.passes),
        }
    }

    fn end_pass(&mut self) {
        let (window, valid) = (self.window, self.valid);
        let mut offset = (0, 0);
        if !valid.is_empty() {
            offset = ((valid.x - window.x) as u32, (valid.y - window.y) as u32);
            if self.flip.0 {
                offset.0 = window.width - offset.0 - valid.width;
            }
            if self.flip.1 {
                offset.1 = window.height - offset.1 - valid.height;
            }
        }
        let task = (!valid.is_empty()).then(|| Task {
            source: (self.crop.width, self.crop.height),
            target: self.target,
            scaling: self.scaling.unwrap_or(UNSCALED),
            mirrored: self.mirrored,
            window: Rect { x: valid.x as u32, y: valid.y as u32, width: valid.width, height: valid.height },
            reversed: self.flip,
        });
        let colours = std::mem::take(&mut self.colours);
        let pass = Pass { crop: self.crop, task, size: self.size(), offset, colours };
        let passes = std::mem::take(&mut self.passes);
        *self = Self::new(pass.size);
        self.passes = passes;
        self.passes.push(pass);
    }
}
