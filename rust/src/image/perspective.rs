//! Perspective maps as torchvision v2 computes them (`_get_perspective_coeffs`, `_perspective_grid`).

use super::warp::{BLOCK, Block, Map};

/// A column and a row.
pub type Corner = (f64, f64);

/// The eight numbers a … h that lead from places at `ends` to those at `starts`, corner by corner; None if there are none.
#[must_use]
pub fn coefficients(starts: [Corner; 4], ends: [Corner; 4]) -> Option<[f32; 8]> {
    let mut rows = [[0.0; 9]; 8];
    for (corner, (start, end)) in starts.into_iter().zip(ends).enumerate() {
        let (x, y) = end;
        rows[2 * corner] = [x, y, 1.0, 0.0, 0.0, 0.0, -start.0 * x, -start.0 * y, start.0];
        rows[2 * corner + 1] = [0.0, 0.0, 0.0, x, y, 1.0, -start.1 * x, -start.1 * y, start.1];
    }
    for column in 0..8 {
        let largest = (column..8).max_by(|&a, &b| rows[a][column].abs().total_cmp(&rows[b][column].abs()))?;
        rows.swap(column, largest);
        let pivot = rows[column];
        if pivot[column].abs() < 1e-9 {
            return None;
        }
        for (index, row) in rows.iter_mut().enumerate() {
            if index != column {
                let share = row[column] / pivot[column];
                row.iter_mut().zip(pivot).for_each(|(number, of_pivot)| *number -= share * of_pivot);
            }
        }
    }
    Some(std::array::from_fn(|index| (rows[index][8] / rows[index][index]) as f32))
}

/// A perspective map in the numbers of a grid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerspectiveMap {
    rows: [[f32; 3]; 2],
    below: (f32, f32),
}

impl PerspectiveMap {
    /// Of an image of the given width and height, by the numbers that [`coefficients`] gives.
    #[must_use]
    pub fn new([a, b, c, d, e, f, g, h]: [f32; 8], size: (u32, u32)) -> Self {
        let (x, y) = (0.5 * size.0 as f32, 0.5 * size.1 as f32);
        Self { rows: [[a / x, b / x, c / x], [d / y, e / y, f / y]], below: (g, h) }
    }
}

impl Map for PerspectiveMap {
    #[inline(always)]
    fn places(&self, x: usize, y: usize, xs: &mut Block<f32>, ys: &mut Block<f32>) {
        let [[a, b, c], [d, e, f]] = self.rows;
        let y = y as f32 + 0.5;
        for index in 0..BLOCK {
            let x = (x as i32 + index as i32) as f32 + 0.5;
            let below = x * self.below.0 + y * self.below.1 + 1.0;
            xs[index] = (x * a + y * b + c) / below - 1.0;
            ys[index] = (x * d + y * e + f) / below - 1.0;
        }
    }
}
