//! Properties of policies: the same bits with all instructions, and distributions that no pixel shows.

use super::super::super::canvas::Canvas;
use super::super::super::chain::{Chain, Row};
use super::super::super::mode::Mode;
use super::super::super::simd::Level;
use super::super::super::warp::Sampling;
use super::*;
use crate::core::keys::Rng;

const SIZE: (u32, u32) = (37, 21);

fn look() -> Look {
    Look { sampling: Sampling::Bilinear, fill: None }
}

fn canvas(between: u8) -> Canvas {
    let (mut canvas, mut rng) = (Canvas::default(), Rng::new(5));
    canvas.reset(SIZE, 3).unwrap();
    canvas.bytes_mut().fill(between);
    canvas.each_plane_mut().flatten().for_each(|number| *number = rng.below(256) as u8);
    canvas
}

fn mixed(sample: i64, between: u8, level: Level) -> Vec<Vec<u8>> {
    let mix = AugMix { severity: 10, width: 4, depth: None, alpha: 1.0, all_ops: true, look: look() };
    let mut chain = Chain::new(SIZE, Row { key: 1, sample, mode: Mode::Rgb });
    chain.apply(0, &mix);
    let passes = chain.finish(u64::MAX).unwrap();
    let (mut canvas, mut spare) = (canvas(between), Canvas::default());
    for op in passes.iter().flat_map(|pass| &pass.whole) {
        op.run(&mut canvas, &mut spare, level).unwrap();
    }
    canvas.each_plane().map(<[u8]>::to_vec).collect()
}

#[test]
fn mixtures_are_the_same_with_all_instructions_and_whatever_stands_between_rows() {
    for sample in 0..60 {
        assert!(mixed(sample, 0, Level::Scalar) == mixed(sample, 255, Level::best()), "row {sample}");
    }
}

#[test]
fn shares_are_those_of_a_dirichlet_distribution() {
    for alpha in [1e-6, 0.3, 1.0, 40.0] {
        let mut rng = Rng::new(3);
        let (mut mean, mut variance) = (0.0, 0.0);
        for _ in 0..20_000 {
            let shares = chances::dirichlet(alpha, 3, &mut rng);
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            mean += shares[1] / 20_000.0;
            variance += (shares[1] - 1.0 / 3.0).powi(2) / 20_000.0;
        }
        let expected = 2.0 / 9.0 / (3.0 * alpha + 1.0);
        assert!((mean - 1.0 / 3.0).abs() < 0.02, "{alpha}: {mean}");
        assert!((variance / expected - 1.0).abs() < 0.05, "{alpha}: {variance} {expected}");
    }
}
