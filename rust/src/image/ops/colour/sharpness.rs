//! Sharper or softer: a blend with the image after a small blur.

use super::super::super::canvas::Canvas;
use super::super::super::chain::Whole;
use super::super::super::fault::Fault;
use super::super::super::simd::Level;
use super::super::super::vectorised::{byte, vectorised};
use super::Change;

/// A blend with the weighted mean of the 3 × 3 pixels around, the middle one five times; pixels at the edges stay, and so do images of one or two rows or columns.
#[must_use]
pub fn sharpness(factor: f64) -> Change {
    Change::image(Sharpness((1.0 - factor) as f32))
}

/// The blur's share.
#[derive(Debug)]
struct Sharpness(f32);

impl Whole for Sharpness {
    fn run(&self, canvas: &mut Canvas, spare: &mut Canvas, level: Level) -> Result<(), Fault> {
        let (width, height) = (canvas.width(), canvas.height());
        if width <= 2 || height <= 2 {
            return Ok(());
        }
        spare.copy_from(canvas)?;
        let mut columns = vec![0; width];
        for y in 1..height - 1 {
            for plane in 0..canvas.planes() {
                let rows = [y - 1, y, y + 1].map(|y| canvas.plane(y, plane));
                let out = &mut spare.plane_mut(y, plane)[1..width - 1];
                vectorised!(level, blend(rows, &mut columns, self.0, out));
            }
        }
        std::mem::swap(canvas, spare);
        Ok(())
    }
}

/// The inner pixels of the middle row; `columns` is room for sums of three rows.
#[inline(always)]
fn blend([above, row, below]: [&[u8]; 3], columns: &mut [u16], share: f32, out: &mut [u8]) {
    for (((sum, &above), &own), &below) in columns.iter_mut().zip(above).zip(row).zip(below) {
        *sum = u16::from(above) + u16::from(own) + u16::from(below);
    }
    let sums = columns.iter().zip(&columns[1..]).zip(&columns[2..]);
    for ((out, &own), ((&left, &middle), &right)) in out.iter_mut().zip(&row[1..]).zip(sums) {
        let sum = left + middle + right + 4 * u16::from(own);
        // To the nearest: of thirteenths, none lies halfway.
        let blurred = (2 * sum + 13) / 26;
        let difference = f32::from(blurred as i16 - i16::from(own));
        *out = byte(difference.mul_add(share, f32::from(own)));
    }
}
