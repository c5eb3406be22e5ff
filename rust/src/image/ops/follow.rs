//! Moves of one image, made of another: a mask goes where its image went.

use std::sync::Arc;

use super::super::chain::Chain;
use super::super::filter::{Filter, Scaling};
use super::super::moves::{Move, Moved};
use super::super::warp::Sampling;
use super::pad::Around;
use super::warp::{Look, QuarterTurn, warp_of};
use super::warps::{elastic, perspective};

/// Does to the image of `chain`, which has the size that the other one had, what was done to that: with the nearest pixels, as torchvision does to masks, and
/// `fill` where there was none.
pub fn follow(chain: &mut Chain, moved: &Moved, fill: f64) {
    let look = Look { sampling: Sampling::Nearest, fill: Some(vec![fill]) };
    match moved.by {
        Move::Crop(window) => chain.crop_filled(window, chain.fill_of(&[fill])),
        Move::Around(window, border) => chain.move_whole(moved.by, Arc::new(Around { window, border })),
        Move::Resize => chain.resize(moved.after, Scaling { filter: Filter::Nearest, antialias: false }),
        Move::FlipHorizontal => chain.flip_horizontal(),
        Move::FlipVertical => chain.flip_vertical(),
        Move::QuarterTurn { clockwise } => chain.move_whole(moved.by, Arc::new(QuarterTurn { clockwise })),
        Move::Affine(how) => {
            chain.move_whole(moved.by, warp_of(moved.before, moved.after, chain.row().mode, &how, &look))
        }
        Move::Perspective(numbers) => perspective(chain, numbers, &look),
        Move::Elastic(by) => elastic(chain, by, &look),
    }
}
