//! A crop that keeps boxes, by how much of them it overlaps (SSD, Liu et al. 2016).

use super::super::boxes::Boxes;
use super::super::chain::{Chain, Window};
use super::super::fault::Fault;
use super::{Arguments, Op};
use crate::core::keys::Rng;

/// Puts boxes beside the image: the first op of a chain that asks for them.
#[derive(Clone, Debug)]
pub struct Beside(pub Boxes);

impl Op for Beside {
    fn apply(&self, chain: &mut Chain, _: &mut Rng) {
        chain.put_boxes(self.0.clone());
    }
}

/// Where no crop fits so often, whatever overlap is asked for, there is none.
const MOST_ROUNDS: usize = 1_000;

/// A random part of the image that overlaps a box by one of some measures; boxes whose middle lies outside become zeros.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomIoUCrop {
    /// Range of the part's sides, as shares of the image's.
    pub scale: (f64, f64),
    /// Range of its width / height.
    pub ratio: (f64, f64),
    /// The overlaps of which one is drawn; from 1 on, the image stays.
    pub options: Vec<f64>,
    /// How often a part is drawn before another overlap is.
    pub trials: usize,
}

impl RandomIoUCrop {
    pub(super) fn new(from: &Arguments) -> Result<Self, String> {
        Ok(Self {
            scale: (from.number("min_scale")?, from.number("max_scale")?),
            ratio: (from.number("min_aspect_ratio")?, from.number("max_aspect_ratio")?),
            options: from.numbers("sampler_options")?,
            trials: from.number("trials")? as usize,
        })
    }

    /// A part, if it is one, and which of the boxes have their middle in it.
    fn part(&self, size: (u32, u32), edges: &[[f64; 4]], overlap: f64, rng: &mut Rng) -> Option<(Window, Vec<bool>)> {
        let mut side = |whole: u32| (f64::from(whole) * rng.uniform_in(self.scale.0, self.scale.1)) as u32;
        let (width, height) = (side(size.0), side(size.1));
        let ratio = f64::from(width) / f64::from(height);
        if width == 0 || height == 0 || !(self.ratio.0..=self.ratio.1).contains(&ratio) {
            return None;
        }
        let mut begin = |whole: u32, side: u32| ((f64::from(whole) - f64::from(side)) * rng.uniform()) as i64;
        let window = Window { x: begin(size.0, width), y: begin(size.1, height), width, height };
        let (left, top) = (window.x as f64, window.y as f64);
        let part = [left, top, left + f64::from(width), top + f64::from(height)];
        let is_inside: Vec<bool> = edges.iter().map(|edges| has_middle_of(part, *edges)).collect();
        let overlaps = edges.iter().zip(&is_inside).filter(|(_, is_inside)| **is_inside);
        let best = overlaps.map(|(edges, _)| shared(part, *edges)).fold(f64::NEG_INFINITY, f64::max);
        (best >= overlap).then_some((window, is_inside))
    }
}

fn has_middle_of(part: [f64; 4], [left, top, right, bottom]: [f64; 4]) -> bool {
    let (x, y) = (0.5 * (left + right), 0.5 * (top + bottom));
    part[0] < x && x < part[2] && part[1] < y && y < part[3]
}

/// What both have in common, as a share of what they cover together.
fn shared(one: [f64; 4], other: [f64; 4]) -> f64 {
    let area = |[left, top, right, bottom]: [f64; 4]| (right - left) * (bottom - top);
    let width = (one[2].min(other[2]) - one[0].max(other[0])).max(0.0);
    let height = (one[3].min(other[3]) - one[1].max(other[1])).max(0.0);
    width * height / (area(one) + area(other) - width * height)
}

impl Op for RandomIoUCrop {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        let Some(boxes) = chain.boxes() else {
            return chain
                .fail(|_| Fault::new("RandomIoUCrop on an image without boxes", "report this to the maintainers"));
        };
        let edges: Vec<[f64; 4]> = boxes.edges().collect();
        if edges.is_empty() {
            return; // no part has a box: the image stays, sooner or later
        }
        for _ in 0..MOST_ROUNDS {
            let overlap = self.options[rng.below(self.options.len() as u64) as usize];
            if overlap >= 1.0 {
                chain.drew("overlap", overlap);
                return;
            }
            let part = (0..self.trials).find_map(|_| self.part(chain.size(), &edges, overlap, rng));
            let Some((window, is_inside)) = part else { continue };
            chain.drew("overlap", overlap);
            let named = [("top", window.y), ("left", window.x)];
            named.into_iter().for_each(|(name, value)| chain.drew(name, value as f64));
            [("height", window.height), ("width", window.width)]
                .into_iter()
                .for_each(|(name, value)| chain.drew(name, value));
            chain.crop(window);
            if let Some(boxes) = chain.boxes_mut() {
                let outside = boxes.boxes.iter_mut().zip(is_inside).filter(|(_, is_inside)| !is_inside);
                outside.for_each(|(one, _)| *one = [0.0; 4]);
            }
            return;
        }
    }
}
