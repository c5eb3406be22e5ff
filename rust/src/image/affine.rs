//! Affine maps as torchvision v2 describes and computes them (`_get_inverse_affine_matrix`, `_affine_grid`).

use super::warp::{BLOCK, Block, Map};

/// What `affine` does to an image: rotates, scales and shears it around a centre, and moves it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Affine {
    /// Degrees, clockwise.
    pub angle: f64,
    /// Pixels to the right and downwards.
    pub translate: (f64, f64),
    /// Times as large.
    pub scale: f64,
    /// Degrees, along x and y.
    pub shear: (f64, f64),
    /// Column and row that stay where they are, counted from the upper left corner; the middle if there is none.
    pub center: Option<(f64, f64)>,
}

impl Default for Affine {
    fn default() -> Self {
        Self { angle: 0.0, translate: (0.0, 0.0), scale: 1.0, shear: (0.0, 0.0), center: None }
    }
}

impl Affine {
    /// Whether it does no more than to move the image.
    #[must_use]
    pub fn only_translates(&self) -> bool {
        self.angle % 360.0 == 0.0 && self.scale.to_bits() == 1.0_f64.to_bits() && self.shear == (0.0, 0.0)
    }

    /// Two rows of three numbers that lead from places in the result to those before, counted from the middle of an image of the given width and height.
    #[must_use]
    pub fn inverse(&self, size: (u32, u32)) -> [f64; 6] {
        let middle = (f64::from(size.0) * 0.5, f64::from(size.1) * 0.5);
        let (cx, cy) = self.center.map_or((0.0, 0.0), |(x, y)| (x - middle.0, y - middle.1));
        let [a, b, c, d] = self.turned_and_sheared();
        let (cx_plus_tx, cy_plus_ty) = (cx + self.translate.0, cy + self.translate.1);
        let [m0, m1, m3, m4] = [d / self.scale, -b / self.scale, -c / self.scale, a / self.scale];
        let m2 = cx - m0 * cx_plus_tx - m1 * cy_plus_ty;
        let m5 = cy - m3 * cx_plus_tx - m4 * cy_plus_ty;
        [m0, m1, m2, m3, m4, m5]
    }

    /// Two rows of three numbers that lead from places before to those in the result, counted from the upper left corner of an image of the given width and height:
    /// what boxes and points are moved by.
    #[must_use]
    pub fn forward(&self, size: (u32, u32)) -> [f64; 6] {
        let (cx, cy) = self.center.unwrap_or((f64::from(size.0) * 0.5, f64::from(size.1) * 0.5));
        let [m0, m1, m3, m4] = self.turned_and_sheared().map(|number| number * self.scale);
        let m2 = cx + self.translate.0 - m0 * cx - m1 * cy;
        let m5 = cy + self.translate.1 - m3 * cx - m4 * cy;
        [m0, m1, m2, m3, m4, m5]
    }

    fn turned_and_sheared(&self) -> [f64; 4] {
        let (turn, x, y) = (self.angle.to_radians(), self.shear.0.to_radians(), self.shear.1.to_radians());
        let a = (turn - y).cos() / y.cos();
        let b = -(a * x.tan() + turn.sin());
        let c = (turn - y).sin() / y.cos();
        [a, b, c, turn.cos() - c * x.tan()]
    }

    /// The width and height that hold all of the result.
    #[must_use]
    pub fn expanded(&self, size: (u32, u32)) -> (u32, u32) {
        let [a, b, c, d, e, f] = self.inverse(size).map(|number| number as f32);
        let (half_width, half_height) = (0.5 * size.0 as f32, 0.5 * size.1 as f32);
        let corners = [(-1.0, -1.0), (-1.0, 1.0), (1.0, 1.0), (1.0, -1.0)];
        let corners = corners.map(|(x, y): (f32, f32)| (x * half_width, y * half_height));
        let extent = |half: f32, places: [f32; 4]| {
            // Cut off behind four digits, so that 1e-15 makes no pixel.
            let cut = |place: f32| ((place + half) * 10_000.0).trunc() * 0.0001;
            let highest = places.into_iter().fold(f32::MIN, f32::max);
            let lowest = places.into_iter().fold(f32::MAX, f32::min);
            (cut(highest).ceil() - cut(lowest).floor()).max(1.0) as u32
        };
        let width = extent(half_width, corners.map(|(x, y)| x * a + y * b + c));
        let height = extent(half_height, corners.map(|(x, y)| x * d + y * e + f));
        (width, height)
    }

    /// Where the pixels of a result of `size` stood in an image of the size `from`.
    #[must_use]
    pub fn map(&self, from: (u32, u32), size: (u32, u32)) -> AffineMap {
        let [a, b, c, d, e, f] = self.inverse(from).map(|number| number as f32);
        let (x, y) = (0.5 * from.0 as f32, 0.5 * from.1 as f32);
        let start = ((1.0 - size.0 as f32) * 0.5, (1.0 - size.1 as f32) * 0.5);
        AffineMap { rows: [[a / x, b / x, c / x], [d / y, e / y, f / y]], start }
    }
}

/// An affine map in the numbers of a grid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AffineMap {
    rows: [[f32; 3]; 2],
    start: (f32, f32),
}

impl Map for AffineMap {
    #[inline(always)]
    fn places(&self, x: usize, y: usize, xs: &mut Block<f32>, ys: &mut Block<f32>) {
        let [[a, b, c], [d, e, f]] = self.rows;
        let y = self.start.1 + y as f32;
        for index in 0..BLOCK {
            let x = self.start.0 + (x as i32 + index as i32) as f32;
            xs[index] = x * a + y * b + c;
            ys[index] = x * d + y * e + f;
        }
    }
}
