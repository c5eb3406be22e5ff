//! From planes to RGB rows of the region, or the planes' own rows.

use super::kernels::Kernels;
use super::layout::{Layout, PAD, Plane, Upsample};
use super::{Colour, PlaneRow, colour, upsample};

/// Takes rows of red, green and blue; what is behind the region's last column means nothing.
pub(super) type ColourSink<'a> = dyn FnMut([&[u8]; 3]) + 'a;
/// Takes the rows of planes.
pub(super) type PlaneSink<'a> = dyn FnMut(PlaneRow<'_>) + 'a;

/// Who takes the rows.
pub(super) enum Output<'a> {
    /// Interleaved RGB: the number of the first row, counted in the region, and one or more rows.
    Rgb(&'a mut dyn FnMut(u32, &[u8])),
    /// Red, green and blue, each by itself.
    Colours(&'a mut ColourSink<'a>),
    /// Components as they are stored.
    Planes(&'a mut PlaneSink<'a>),
}

/// Rows on their way out. The buffers are as wide as the region and whole vectors behind it.
#[derive(Default)]
pub(super) struct Emitter {
    full: [Vec<u8>; 3],
    out: Vec<u8>,
    /// Next pixel row, counted from the image's top.
    next: usize,
    /// Next MCU row, counted from the image's top.
    next_mcu_row: usize,
}

/// Bytes of a row that its consumers may read: whole vectors, so that no loop has a tail.
fn padded(len: usize) -> usize {
    len.next_multiple_of(32)
}

impl Emitter {
    /// Gets ready for a region.
    pub fn start(&mut self, layout: &Layout) {
        let width = layout.region.width as usize;
        for row in &mut self.full {
            row.resize(padded(width + 8) + PAD, 0);
        }
        self.out.resize(padded(width) * 3, 0);
        self.next = layout.region.y as usize;
        self.next_mcu_row = layout.rows.start;
    }

    /// Gives all rows to `output` for which the planes hold everything, when `mcu_rows` MCU rows are decoded.
    #[inline(always)]
    pub fn emit<K: Kernels>(&mut self, layout: &Layout, planes: &mut [u8], mcu_rows: usize, output: &mut Output<'_>) {
        match output {
            Output::Rgb(sink) => self.emit_rgb::<K>(layout, planes, mcu_rows, sink),
            Output::Colours(sink) => {
                let bottom = (layout.region.y + layout.region.height) as usize;
                while self.next < bottom && layout.is_ready(self.next / layout.group, mcu_rows) {
                    sink(self.colours::<K>(layout, planes));
                    self.next += 1;
                }
            }
            Output::Planes(sink) => self.emit_planes(layout, planes, mcu_rows, sink),
        }
    }

    fn emit_planes(&mut self, layout: &Layout, planes: &[u8], mcu_rows: usize, sink: &mut PlaneSink<'_>) {
        for mcu_row in self.next_mcu_row..mcu_rows.min(layout.rows.end) {
            for (component, plane) in layout.planes.iter().enumerate() {
                let rows = plane.vertical * plane.size;
                for y in mcu_row * rows..((mcu_row + 1) * rows).min(plane.height) {
                    let samples = &planes[plane.row(y)..][..plane.stride - PAD];
                    sink(PlaneRow { component, y, first_x: plane.first_x, samples });
                }
            }
            self.next_mcu_row = mcu_row + 1;
        }
    }

    #[inline(always)]
    fn emit_rgb<K: Kernels>(
        &mut self,
        layout: &Layout,
        planes: &mut [u8],
        mcu_rows: usize,
        sink: &mut dyn FnMut(u32, &[u8]),
    ) {
        let top = layout.region.y as usize;
        let bottom = top + layout.region.height as usize;
        let bytes = layout.region.width as usize * 3;
        while self.next < bottom && layout.is_ready(self.next / layout.group, mcu_rows) {
            self.row::<K>(layout, planes);
            sink((self.next - top) as u32, &self.out[..bytes]);
            self.next += 1;
        }
    }

    #[inline(always)]
    fn row<K: Kernels>(&mut self, layout: &Layout, planes: &mut [u8]) {
        let width = padded(layout.region.width as usize);
        let x = layout.region.x as usize;
        let mut rows: [&[u8]; 3] = [&[]; 3];
        for ((row, plane), full) in rows.iter_mut().zip(&layout.planes).zip(&mut self.full) {
            if plane.upsample != Upsample::Full {
                upsample_row::<K>(plane, layout, self.next, planes, full);
                *row = &full[x % plane.x_times..];
            }
        }
        for (row, plane) in rows.iter_mut().zip(&layout.planes) {
            if plane.upsample == Upsample::Full {
                *row = &planes[plane.row(self.next) + x - plane.first_x..];
            }
        }
        let [first, second, third] = rows.map(|row| &row[..width.min(row.len())]);
        match layout.colour {
            Colour::YCbCr => K::ycc_row(first, second, third, &mut self.out),
            Colour::Grey => colour::interleave_row(first, first, first, &mut self.out),
            Colour::Rgb | Colour::Other => colour::interleave_row(first, second, third, &mut self.out),
        }
    }
}

impl Emitter {
    /// The next row as red, green and blue.
    #[inline(always)]
    fn colours<K: Kernels>(&mut self, layout: &Layout, planes: &mut [u8]) -> [&[u8]; 3] {
        let (x, width) = (layout.region.x as usize, padded(layout.region.width as usize));
        let mut starts = [0; 3];
        for ((plane, full), start) in layout.planes.iter().zip(&mut self.full).zip(&mut starts) {
            if plane.upsample == Upsample::Full {
                let row = &planes[plane.row(self.next) + x - plane.first_x..];
                let width = width.min(row.len());
                full[..width].copy_from_slice(&row[..width]);
            } else {
                upsample_row::<K>(plane, layout, self.next, planes, full);
                *start = x % plane.x_times;
            }
        }
        let [y, cb, cr] = &mut self.full;
        match layout.colour {
            Colour::Grey => return [y, y, y],
            Colour::YCbCr => K::ycc_planes([
                &mut y[starts[0]..][..width],
                &mut cb[starts[1]..][..width],
                &mut cr[starts[2]..][..width],
            ]),
            Colour::Rgb | Colour::Other => {}
        }
        [&y[starts[0]..], &cb[starts[1]..], &cr[starts[2]..]]
    }
}

/// Repeats a row's edge samples where the image ends.
#[inline(always)]
fn extend_edges(plane: &Plane, y: usize, planes: &mut [u8]) {
    let start = plane.row(y);
    if plane.first_x == 0 {
        planes[start - 1] = planes[start];
    }
    let end = plane.width - plane.first_x;
    if end < plane.stride - PAD {
        planes[start + end] = planes[start + end - 1];
    }
}

/// Writes the row of a component at pixel row `y`, from the pixel of the sample under the region's first column on.
#[inline(always)]
fn upsample_row<K: Kernels>(plane: &Plane, layout: &Layout, y: usize, planes: &mut [u8], out: &mut [u8]) {
    let first = layout.region.x as usize / plane.x_times - plane.first_x;
    let pixels = layout.region.x as usize % plane.x_times + layout.region.width as usize;
    let samples = pixels.div_ceil(plane.x_times);
    let near = y / plane.y_times;
    let is_below = y % plane.y_times == 1;
    let far = if is_below { (near + 1).min(plane.height - 1) } else { near.saturating_sub(1) };
    match plane.upsample {
        Upsample::Double | Upsample::Both => {
            // Whole vectors of 16 samples, one more on either side; the planes' padding is wide enough.
            let (count, start) = (samples.next_multiple_of(16), first + PAD - 1);
            let place = |y: usize| plane.row(y) - PAD + start..plane.row(y) - PAD + start + count + 2;
            extend_edges(plane, near, planes);
            if plane.upsample == Upsample::Double {
                K::double_row(&planes[place(near)], &mut out[..2 * count]);
            } else {
                extend_edges(plane, far, planes);
                K::double_both(&planes[place(near)], &planes[place(far)], &mut out[..2 * count]);
            }
        }
        Upsample::Between => {
            let place = |y: usize| plane.row(y) + first..plane.row(y) + first + samples;
            upsample::between_rows(&planes[place(near)], &planes[place(far)], is_below, out);
        }
        Upsample::Repeat | Upsample::Full => {
            upsample::repeat_row(&planes[plane.row(near) + first..][..samples], plane.x_times, out);
        }
    }
}
