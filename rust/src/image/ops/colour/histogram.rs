//! Tables that depend on how often each number is there, channel by channel.

use super::super::super::canvas::Canvas;
use super::super::super::chain::Whole;
use super::super::super::fault::Fault;
use super::super::super::recolour::Tables;
use super::super::super::simd::Level;
use super::super::super::vectorised::{byte, vectorised};
use super::Change;

/// Each channel stretched, so that its least number becomes 0 and its greatest 255.
#[must_use]
pub fn autocontrast() -> Change {
    Change::image(Autocontrast)
}

/// Each channel's numbers spread, so that all are there about as often (as Pillow's `ImageOps.equalize`).
#[must_use]
pub fn equalize() -> Change {
    Change::image(Equalize)
}

#[derive(Debug)]
struct Autocontrast;

impl Whole for Autocontrast {
    fn run(&self, canvas: &mut Canvas, spare: &mut Canvas, level: Level) -> Result<(), Fault> {
        let mut ends = [(u8::MAX, u8::MIN); 4];
        let planes = canvas.planes();
        for (index, plane) in canvas.each_plane().enumerate() {
            let (least, most) = &mut ends[index % planes];
            vectorised!(level, {
                *least = plane.iter().fold(*least, |least, &number| least.min(number));
                *most = plane.iter().fold(*most, |most, &number| most.max(number));
            });
        }
        let tables = ends[..planes].iter().map(|&(least, most)| stretched(least, most)).collect();
        Change::rows(Tables::of_planes(tables)).run(canvas, spare, level)
    }
}

fn stretched(least: u8, most: u8) -> [u8; 256] {
    let (least, unit) =
        if least >= most { (0.0, 1.0) } else { (f32::from(least), f32::from(most - least) * (1.0_f64 / 255.0) as f32) };
    std::array::from_fn(|number| byte((number as f32 - least) / unit))
}

#[derive(Debug)]
struct Equalize;

impl Whole for Equalize {
    fn run(&self, canvas: &mut Canvas, spare: &mut Canvas, level: Level) -> Result<(), Fault> {
        let tables = (0..canvas.planes()).map(|plane| spread(&counts(canvas, plane))).collect();
        Change::rows(Tables::of_planes(tables)).run(canvas, spare, level)
    }
}

/// How often each number is there.
fn counts(canvas: &Canvas, plane: usize) -> [u32; 256] {
    // Four by turns: equal neighbours would wait for each other's count.
    let mut counts = [[0_u32; 256]; 4];
    for row in canvas.each_plane().skip(plane).step_by(canvas.planes()) {
        let (fours, rest) = row.as_chunks::<4>();
        for four in fours {
            for (counts, &number) in counts.iter_mut().zip(four) {
                counts[usize::from(number)] += 1;
            }
        }
        rest.iter().for_each(|&number| counts[0][usize::from(number)] += 1);
    }
    std::array::from_fn(|number| counts.iter().map(|counts| counts[number]).sum())
}

fn spread(counts: &[u32; 256]) -> [u8; 256] {
    let all: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    let last = counts.iter().rposition(|&count| count > 0).map_or(0, |last| u64::from(counts[last]));
    let step = (all - last) / 255;
    if step == 0 {
        return std::array::from_fn(|number| number as u8);
    }
    let mut below = 0;
    counts.map(|count| {
        let level = ((below + step / 2) / step).min(255) as u8;
        below += u64::from(count);
        level
    })
}
