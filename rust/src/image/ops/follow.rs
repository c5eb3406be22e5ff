//! Moves of one image, made of another: a mask goes where its image went.

use std::sync::Arc;

use super::super::chain::{Chain, Op};
use super::super::fault::Fault;
use super::super::filter::{Filter, Scaling};
use super::super::moves::{Move, Moved};
use super::super::warp::Sampling;
use super::pad::Around;
use super::warp::{Look, QuarterTurn, warp_of};
use super::warps::{elastic, perspective};
use crate::core::keys::Rng;

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
        Move::HalfTurn => chain.half_turn(),
        Move::QuarterTurn { clockwise } => chain.move_whole(moved.by, Arc::new(QuarterTurn { clockwise })),
        Move::Affine(how) => {
            chain.move_whole(moved.by, warp_of(moved.before, moved.after, chain.row().mode, &how, &look))
        }
        Move::Perspective(numbers) => perspective(chain, numbers, &look),
        Move::Elastic(by) => elastic(chain, by, &look),
    }
}

/// What becomes of a mask: an op that does what was done to its image.
#[derive(Clone, Debug)]
pub struct Follow {
    /// Width and height of the image where its ops began.
    pub size: (u32, u32),
    /// What these did.
    pub moves: Vec<Moved>,
    /// What stands where there was no image.
    pub fill: f64,
}

impl Op for Follow {
    fn apply(&self, chain: &mut Chain, _: &mut Rng) {
        let of = self.size;
        if chain.size() != of {
            return chain.fail(|size| {
                let found = format!(
                    "a mask of {} × {} pixels (width × height), whose image has {} × {}",
                    size.0, size.1, of.0, of.1
                );
                Fault::new(found, "give masks the size of their images, as these are stored")
            });
        }
        self.moves.iter().for_each(|moved| follow(chain, moved, self.fill));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::emit::Format;
    use super::super::super::limits::Limits;
    use super::super::super::mode::Mode;
    use super::super::super::moves::Border;
    use super::super::super::program::{Image, Program, Worker};
    use super::super::super::simd::Level;
    use super::super::*;
    use super::*;
    use crate::core::keys::Rng;
    use proptest::prelude::*;

    const NEAREST: Scaling = Scaling { filter: Filter::Nearest, antialias: false };

    fn look(sampling: Sampling) -> Look {
        Look { sampling, fill: Some(vec![9.0]) }
    }

    fn op(which: usize, sampling: Sampling) -> Arc<dyn Op> {
        let look = look(sampling);
        let center = Some((3.0, 5.0));
        match which {
            0 => Arc::new(RandomRotation { degrees: (-180.0, 180.0), expand: true, center: None, look }),
            1 => Arc::new(RandomRotation { degrees: (90.0, 90.0), expand: true, center: None, look }),
            2 => Arc::new(RandomRotation { degrees: (180.0, 180.0), expand: false, center: None, look }),
            3 => Arc::new(RandomAffine {
                degrees: (-40.0, 40.0),
                translate: Some((0.2, 0.2)),
                scale: Some((0.5, 1.5)),
                shear: Some(vec![-9.0, 9.0, -5.0, 5.0]),
                center,
                look,
            }),
            4 => Arc::new(RandomPerspective { distortion_scale: 0.5, p: 1.0, look }),
            5 => Arc::new(ElasticTransform { alpha: (8.0, 6.0), sigma: (1.5, 1.0), look }),
            6 => Arc::new(Pad { padding: [3, 1, 0, 7], margin: Margin::Image(Border::Reflect) }),
            7 => Arc::new(RandomCrop {
                size: (9, 8),
                padding: [2; 4],
                pad_if_needed: true,
                margin: Margin::Constant(vec![9.0]),
            }),
            8 => Arc::new(RandomResize { range: (5, 40), scaling: NEAREST }),
            9 => Arc::new(RandomHorizontalFlip { p: 0.5 }),
            10 => Arc::new(RandomVerticalFlip { p: 0.5 }),
            _ => Arc::new(RandomZoomOut { fill: vec![9.0], side_range: (1.0, 2.0), p: 0.7 }),
        }
    }

    fn run(level: Level, ops: Ops, size: (u32, u32), pixels: &[u8], mode: Mode) -> (Vec<Moved>, Vec<u8>) {
        let limits = Limits::default();
        let format = Format::pixels(mode, 1, 1);
        let (is_strict, apply_exif, fast, allow_truncated) = (false, false, false, false);
        let mut program = Program { ops, mode, is_strict, apply_exif, fast, allow_truncated, format, limits };
        let moves = program.moves(size, 1, 2);
        let after = program.passes(size, 1, 2).unwrap().last().unwrap().size;
        program.format = Format::pixels(mode, after.0, after.1);
        let mut out = vec![77; program.format.bytes()];
        let mut worker = Worker::new(level, program.format);
        program.run(&mut worker, Image::Pixels { bytes: pixels, size }, 1, 2, &mut out).unwrap();
        worker.finish();
        (moves, out)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// A mask that follows an image goes where that went, pixel by pixel.
        #[test]
        fn what_follows_goes_the_same_way(
            size in (1_u32..40, 1_u32..40),
            chosen in prop::collection::vec(0_usize..12, 1..4),
            seed: u64,
        ) {
            let mut rng = Rng::new(seed);
            let pixels: Vec<u8> = (0..size.0 * size.1).map(|_| rng.below(256) as u8).collect();
            let ops = chosen.iter().enumerate().map(|(number, &which)| (number as u64, op(which, Sampling::Nearest)));
            let (moves, done) = run(Level::best(), ops.collect(), size, &pixels, Mode::L);
            let (again, followed) = run(Level::best(), vec![(0, Arc::new(Follow { size, moves: moves.clone(), fill: 9.0 }))], size, &pixels, Mode::L);
            prop_assert_eq!(done, followed);
            let bare = |moves: &[Moved]| moves.iter().map(|moved| (moved.before, moved.after, moved.by)).collect::<Vec<_>>();
            prop_assert_eq!(bare(&moves), bare(&again));
        }

        /// Vectorised warps have the bits of plain ones, whatever a row's length.
        #[test]
        fn vectorised_warps_are_plain_ones(
            size in (1_u32..300, 1_u32..20),
            which in 0_usize..7,
            mode in prop_oneof![Just(Mode::Rgb), Just(Mode::L), Just(Mode::La), Just(Mode::Rgba)],
            is_nearest: bool,
            seed: u64,
        ) {
            let sampling = if is_nearest { Sampling::Nearest } else { Sampling::Bilinear };
            let mut rng = Rng::new(seed);
            let bytes = (size.0 * size.1) as usize * mode.bytes();
            let pixels: Vec<u8> = (0..bytes).map(|_| [0, 255, rng.below(256) as u8][rng.below(3) as usize]).collect();
            let (_, plain) = run(Level::Scalar, vec![(seed, op(which, sampling))], size, &pixels, mode);
            let (_, vectorised) = run(Level::best(), vec![(seed, op(which, sampling))], size, &pixels, mode);
            prop_assert_eq!(plain, vectorised);
        }
    }
}
