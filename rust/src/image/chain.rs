//! Crops, resizes, flips and colours of one image, composed to as few passes over its pixels as possible; and what works on all of it between two of them.

use std::fmt::Debug;
use std::sync::Arc;

use super::boxes::Boxes;
use super::canvas::Canvas;
use super::fault::Fault;
use super::filter::{Filter, Scaling};
use super::mode::Mode;
pub use super::moves::Window;
use super::moves::{Move, Moved};
use super::patch::Patch;
use super::recolour::{Recolour, Tables};
use super::resample::Task;
use super::simd::Level;
use crate::core::geometry::Rect;
use crate::core::keys::{Rng, mix};

/// Work on a whole image: what looks at neighbours, or at numbers of all pixels.
pub trait Whole: Debug + Send + Sync {
    /// Columns and rows of what becomes of an image of so many.
    fn size(&self, before: (u32, u32)) -> (u32, u32) {
        before
    }

    /// The mode that pixels of one have afterwards.
    fn mode(&self, before: Mode) -> Mode {
        before
    }

    /// Does it, in `canvas`, with the given instructions; what `spare` holds before and afterwards means nothing.
    ///
    /// # Errors
    /// If the process may not have the memory.
    fn run(&self, canvas: &mut Canvas, spare: &mut Canvas, level: Level) -> Result<(), Fault>;
}

/// One operation, with torchvision v2's sampling and rounding rules
/// (torchvision, `transforms/v2/_geometry.py` and `functional/_geometry.py`).
pub trait Op: Debug + Send + Sync {
    /// Applies the operation to one image's chain, with its random choices from `rng`.
    fn apply(&self, chain: &mut Chain, rng: &mut Rng);
}

/// What an image's random choices depend on, and what its pixels are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The epoch's key.
    pub key: u64,
    /// The row's id.
    pub sample: i64,
    /// Of the pixels.
    pub mode: Mode,
}

/// A number that an op drew.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drawn {
    /// The op's.
    pub number: u64,
    /// What it stands for.
    pub name: &'static str,
    /// It.
    pub value: f64,
}

/// One pass over an image: crop, resize, window, flip, other colours, and a margin around; then what works on the whole result.
#[derive(Clone, Debug)]
pub struct Pass {
    /// Of the pixels, until its last work on the whole result.
    pub mode: Mode,
    /// The part of the image that is looked at; nothing outside of it has any influence.
    pub crop: Rect,
    /// The resize of the crop; None if the result is margin alone.
    pub task: Option<Task>,
    /// Width and height of the result.
    pub size: (u32, u32),
    /// Where the task's window stands in the result; the margin is around it.
    pub offset: (u32, u32),
    /// The margin's pixels, a byte a plane.
    pub fill: [u8; 4],
    /// What its colours go through, one after another.
    pub colours: Vec<Arc<dyn Recolour>>,
    /// What is done with the whole result, one after another. The last pass has none.
    pub whole: Vec<Arc<dyn Whole>>,
    /// What is replaced of the numbers that are emitted, one after another; of the last pass alone.
    pub patches: Vec<Patch>,
}

/// The composition so far; every method sees the image as the methods before have left it.
#[derive(Clone, Debug)]
pub struct Chain {
    row: Row,
    number: u64,
    drawn: Option<Vec<Drawn>>,
    moves: Option<Vec<Moved>>,
    boxes: Option<Boxes>,
    fault: Option<Fault>,
    passes: Vec<Pass>,
    patches: Vec<Patch>,
    crop: Rect,
    target: (u32, u32),
    scaling: Option<Scaling>,
    mirrored: (bool, bool),
    window: Window,
    valid: Window,
    fill: [u8; 4],
    flip: (bool, bool),
    colours: Vec<Arc<dyn Recolour>>,
}

const UNSCALED: Scaling = Scaling { filter: Filter::Nearest, antialias: false };

impl Chain {
    /// An image of the given width and height.
    #[must_use]
    pub const fn new(size: (u32, u32), row: Row) -> Self {
        Self {
            row,
            number: 0,
            drawn: None,
            moves: None,
            boxes: None,
            fault: None,
            passes: Vec::new(),
            patches: Vec::new(),
            crop: Rect { x: 0, y: 0, width: size.0, height: size.1 },
            target: size,
            scaling: None,
            mirrored: (false, false),
            window: Window::whole(size),
            valid: Window::whole(size),
            fill: [0; 4],
            flip: (false, false),
            colours: Vec::new(),
        }
    }

    /// Keeps what ops draw from now on, for [`Self::take_drawn`].
    pub fn record(&mut self) {
        self.drawn = Some(Vec::new());
    }

    /// What ops drew since [`Self::record`].
    pub fn take_drawn(&mut self) -> Vec<Drawn> {
        self.drawn.take().unwrap_or_default()
    }

    /// Takes note of what the op drew, for those who ask.
    pub fn drew(&mut self, name: &'static str, value: impl Into<f64>) {
        if let Some(drawn) = &mut self.drawn {
            drawn.push(Drawn { number: self.number, name, value: value.into() });
        }
    }

    /// Keeps how pixels move from now on, for [`Self::take_moves`].
    pub fn record_moves(&mut self) {
        self.moves = Some(Vec::new());
    }

    /// How pixels moved since [`Self::record_moves`], step by step.
    pub fn take_moves(&mut self) -> Vec<Moved> {
        self.moves.take().unwrap_or_default()
    }

    /// Boxes that lie on the image as it is now, and are moved with its pixels from now on.
    pub fn put_boxes(&mut self, boxes: Boxes) {
        self.boxes = Some(boxes);
    }

    /// Those boxes, as they are now.
    #[must_use]
    pub const fn boxes(&self) -> Option<&Boxes> {
        self.boxes.as_ref()
    }

    /// The same, to be changed, or taken.
    pub const fn boxes_mut(&mut self) -> &mut Option<Boxes> {
        &mut self.boxes
    }

    fn moved(&mut self, by: Move, after: (u32, u32)) {
        let moved = Moved { number: self.number, before: self.size(), after, by };
        if let Some(moves) = &mut self.moves {
            moves.push(moved);
        }
        if let Some(Err(fault)) = self.boxes.as_mut().map(|boxes| boxes.follow(&moved)) {
            self.fail(|_| fault);
        }
    }

    /// Refuses the image as it is now, of this width and height, unless an op before has refused it.
    pub fn fail(&mut self, fault: impl FnOnce((u32, u32)) -> Fault) {
        if self.fault.is_none() {
            self.fault = Some(fault(self.size()));
        }
    }

    /// Forgets what ops refused: where the size alone is asked for, of an image that there is not.
    pub fn forgive(&mut self) {
        self.fault = None;
    }

    /// Applies an op, which draws by its number, the row and the epoch alone.
    pub fn apply(&mut self, number: u64, op: &dyn Op) {
        let around = std::mem::replace(&mut self.number, number);
        op.apply(self, &mut Rng::new(mix(&[self.row.key, self.row.sample as u64, number])));
        self.number = around;
    }

    /// The row that this image is.
    #[must_use]
    pub const fn row(&self) -> Row {
        self.row
    }

    /// Width and height of the image as it is now.
    #[must_use]
    pub const fn size(&self) -> (u32, u32) {
        (self.window.width, self.window.height)
    }

    /// Mirrors left and right.
    pub fn flip_horizontal(&mut self) {
        self.moved(Move::FlipHorizontal, self.size());
        self.flip.0 = !self.flip.0;
    }

    /// Mirrors top and bottom.
    pub fn flip_vertical(&mut self) {
        self.moved(Move::FlipVertical, self.size());
        self.flip.1 = !self.flip.1;
    }

    /// Turns it by 180 degrees.
    pub fn half_turn(&mut self) {
        self.moved(Move::HalfTurn, self.size());
        self.flip = (!self.flip.0, !self.flip.1);
    }

    /// Changes the colours of all pixels.
    pub fn recolour(&mut self, colours: Arc<dyn Recolour>) {
        if self.valid != self.window && (self.fill != [0; 4] || !colours.keeps_zero()) {
            self.end_pass();
        }
        let before = self.colours.last().and_then(|last| last.tables());
        if let (Some(before), Some(after)) = (before, colours.tables()) {
            let both = Tables::one_behind_another(before, after);
            self.colours.pop();
            self.colours.push(Arc::new(both));
        } else {
            self.colours.push(colours);
        }
    }

    /// Works on all of the image as it is now.
    pub fn whole(&mut self, op: Arc<dyn Whole>) {
        if self.passes.is_empty() || self.is_pending() {
            self.end_pass();
        }
        let size = op.size(self.size());
        self.row.mode = op.mode(self.row.mode);
        self.passes.last_mut().expect("a pass has ended").whole.push(op);
        self.begin_again(size);
    }

    /// The same, of work that moves pixels.
    pub fn move_whole(&mut self, by: Move, op: Arc<dyn Whole>) {
        self.moved(by, op.size(self.size()));
        self.whole(op);
    }

    /// Replaces a part of the numbers that are emitted; nothing may move pixels after it.
    pub fn replace(&mut self, patch: Patch) {
        self.patches.push(patch);
    }

    /// Keeps a part of the image; where the part lies outside, there are zeros.
    pub fn crop(&mut self, part: Window) {
        self.crop_filled(part, [0; 4]);
    }

    /// Keeps a part of the image; where the part lies outside, there are pixels of `fill`, a byte a plane.
    pub fn crop_filled(&mut self, part: Window, fill: [u8; 4]) {
        self.moved(Move::Crop(part), (part.width, part.height));
        let (width, height) = (i64::from(self.window.width), i64::from(self.window.height));
        let reaches_out = part.intersect(Window::whole(self.size())) != part;
        if reaches_out && fill != self.fill {
            if self.valid != self.window {
                self.end_pass();
            }
            self.fill = fill;
        }
        let x = if self.flip.0 { width - part.x - i64::from(part.width) } else { part.x };
        let y = if self.flip.1 { height - part.y - i64::from(part.height) } else { part.y };
        self.window = Window { x: self.window.x + x, y: self.window.y + y, ..part };
        self.valid = self.valid.intersect(self.window);
    }

    /// The bytes of a pixel's planes from a number a channel: those that lie outside of 0 … 255 (or 65,535) become the nearest, and the last stands for channels that have none.
    #[must_use]
    pub fn fill_of(&self, values: &[f64]) -> [u8; 4] {
        let value = |channel: usize| values.get(channel).or(values.last()).copied().unwrap_or(0.0);
        if self.row.mode.is_wide() {
            let [first, second] = (value(0).clamp(0.0, 65_535.0) as u16).to_ne_bytes();
            return [first, second, 0, 0];
        }
        std::array::from_fn(|channel| value(channel).clamp(0.0, 255.0) as u8)
    }

    /// Resizes to the given width and height.
    pub fn resize(&mut self, size: (u32, u32), scaling: Scaling) {
        if size == self.size() {
            return;
        }
        self.moved(Move::Resize, size);
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
    /// If an op refused the image, or an image between two passes, or an edge of the result, would be larger than `pixels_limit`.
    pub fn finish(mut self, pixels_limit: u64) -> Result<Vec<Pass>, Fault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        self.end_pass();
        self.passes.last_mut().expect("a pass has ended").patches = self.patches;
        let between = &self.passes[..self.passes.len() - 1];
        let pixels = |size: (u32, u32)| u64::from(size.0) * u64::from(size.1);
        let largest = between.iter().flat_map(Pass::sizes).map(pixels).max();
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
        let size = self.size();
        let (mode, crop, fill) = (self.row.mode, self.crop, self.fill);
        let (whole, patches) = (Vec::new(), Vec::new());
        self.passes.push(Pass { mode, crop, task, size, offset, fill, colours, whole, patches });
        self.begin_again(size);
    }

    /// Whether anything is to be done with what the passes so far leave.
    fn is_pending(&self) -> bool {
        let whole = Window::whole(self.target);
        let is_whole = self.window == whole && self.valid == whole && (self.crop.x, self.crop.y) == (0, 0);
        let is_as_it_is = self.scaling.is_none() && self.flip == (false, false) && self.colours.is_empty();
        !is_whole || !is_as_it_is
    }

    /// Goes on with an image of the given width and height, behind the passes so far.
    fn begin_again(&mut self, size: (u32, u32)) {
        let (number, passes) = (self.number, std::mem::take(&mut self.passes));
        let patches = std::mem::take(&mut self.patches);
        let (drawn, moves, fault) = (self.drawn.take(), self.moves.take(), self.fault.take());
        let boxes = self.boxes.take();
        *self = Self { number, drawn, moves, boxes, fault, passes, patches, ..Self::new(size, self.row) };
    }
}

impl Pass {
    /// Width and height of the result, and after each work on the whole of it.
    fn sizes(&self) -> Vec<(u32, u32)> {
        let mut sizes = vec![self.size];
        for op in &self.whole {
            sizes.push(op.size(sizes[sizes.len() - 1]));
        }
        sizes
    }
}
