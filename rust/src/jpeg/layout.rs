//! Which samples a region needs, and where they lie while it is decoded.

use std::ops::Range;

use super::{Colour, DecodeOptions, Header, JpegError};
use crate::core::geometry::Rect;

/// Bytes before the first sample of a stored row, and at least so many behind the last: room for the edge sample that
/// upsampling repeats, and for whole vectors.
pub(super) const PAD: usize = 64;

/// How a component's row becomes a full-width row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upsample {
    /// It has full size.
    Full,
    /// Triangle filter, twice the width.
    Double,
    /// Triangle filter, twice the width and the height.
    Both,
    /// Triangle filter, twice the height.
    Between,
    /// Every sample repeated.
    Repeat,
}

/// One component while a region is decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plane {
    /// Samples per block and side: 8, 4, 2 or 1.
    pub size: usize,
    /// Blocks per MCU.
    pub horizontal: usize,
    pub vertical: usize,
    /// Size of the whole component at this scale, in samples.
    pub width: usize,
    pub height: usize,
    /// Pixels per sample.
    pub x_times: usize,
    pub y_times: usize,
    pub upsample: Upsample,
    /// First stored column.
    pub first_x: usize,
    /// First byte in the buffer, bytes per row, number of rows (row `y` is stored at `y % rows`).
    base: usize,
    pub stride: usize,
    rows: usize,
}

/// Everything about one region of one image.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub planes: Vec<Plane>,
    pub colour: Colour,
    pub region: Rect,
    /// The image's MCUs.
    pub mcus: (usize, usize),
    /// MCUs that the region needs.
    pub columns: Range<usize>,
    pub rows: Range<usize>,
    /// Pixel rows per row group, and whether upsampling looks at neighbouring row groups.
    pub group: usize,
    pub context: bool,
    /// Bytes of all planes.
    pub bytes: usize,
}

impl Plane {
    /// Offset of the first stored sample of a row.
    #[inline(always)]
    pub fn row(&self, y: usize) -> usize {
        self.base + (y % self.rows) * self.stride + PAD
    }
}

impl Layout {
    pub fn new(header: &Header, region: Rect, options: &DecodeOptions) -> Result<Self, JpegError> {
        let pixels = u64::from(header.width) * u64::from(header.height);
        if pixels > options.max_pixels {
            return Err(JpegError::TooLarge { pixels, limit: options.max_pixels });
        }
        if !header.is_supported() {
            let found = u32::from(header.frame_marker);
            return Err(JpegError::Unsupported { offset: header.scan.start, what: "this kind of JPEG", found });
        }
        let (width, height) = header.scaled_size(options.scale);
        let wrong = |what| JpegError::Request { what, width, height };
        if !matches!(options.scale, 1 | 2 | 4 | 8) {
            return Err(wrong("the scale is 1, 2, 4 or 8"));
        }
        let fits = |start: u32, len: u32, all: u32| len > 0 && start.checked_add(len).is_some_and(|end| end <= all);
        if !fits(region.x, region.width, width) || !fits(region.y, region.height, height) {
            return Err(wrong("the region is empty or not inside the image"));
        }
        let mut layout = Self {
            planes: Vec::with_capacity(3),
            colour: header.colour,
            region,
            mcus: (0, 0),
            columns: Range { start: usize::MAX, end: 0 },
            rows: Range { start: usize::MAX, end: 0 },
            group: 1,
            context: false,
            bytes: 0,
        };
        layout.place_planes(header, options);
        layout.allot(header, options.entry_points.is_some());
        if layout.bytes as u64 > options.max_bytes {
            return Err(JpegError::TooManyBytes { bytes: layout.bytes as u64, limit: options.max_bytes });
        }
        Ok(layout)
    }

    fn place_planes(&mut self, header: &Header, options: &DecodeOptions) {
        let count = header.component_count;
        let factors = |i: usize| match count {
            1 => (1, 1), // A single component is stored block by block, whatever its sampling factors.
            _ => (usize::from(header.components[i].horizontal), usize::from(header.components[i].vertical)),
        };
        let h_max = (0..count).map(|i| factors(i).0).max().unwrap_or(1);
        let v_max = (0..count).map(|i| factors(i).1).max().unwrap_or(1);
        let least = 8 / usize::from(options.scale);
        let fancy = options.fancy_upsampling && least > 1;
        let (width, height) = (header.width as usize, header.height as usize);
        self.mcus = (width.div_ceil(8 * h_max), height.div_ceil(8 * v_max));
        self.group = v_max;
        let region = [self.region.x, self.region.y, self.region.width, self.region.height].map(|v| v as usize);
        for i in 0..count {
            let (h, v) = factors(i);
            // As libjpeg: a component with fewer samples is scaled down less, if that spares its upsampling.
            let mut size = least;
            while size < 8 && (h_max * least) % (h * size * 2) == 0 && (v_max * least) % (v * size * 2) == 0 {
                size *= 2;
            }
            let (x_times, y_times) = (h_max * least / (h * size), v_max * least / (v * size));
            let width = (width * h * size).div_ceil(h_max * 8);
            let upsample = match (x_times, y_times) {
                (1, 1) => Upsample::Full,
                (2, 1) if fancy && width > 2 => Upsample::Double,
                (2, 2) if fancy && width > 2 => Upsample::Both,
                (1, 2) if fancy => Upsample::Between,
                _ => Upsample::Repeat,
            };
            let plane = Plane {
                size,
                horizontal: h,
                vertical: v,
                width,
                height: (height * v * size).div_ceil(v_max * 8),
                x_times,
                y_times,
                upsample,
                first_x: 0,
                base: 0,
                stride: 0,
                rows: 0,
            };
            let aside = usize::from(matches!(upsample, Upsample::Double | Upsample::Both));
            let above = usize::from(matches!(upsample, Upsample::Between | Upsample::Both));
            self.context |= above > 0;
            let needed = |start: usize, len: usize, times: usize, margin: usize, all: usize| {
                let last = ((start + len - 1) / times + margin).min(all - 1);
                (start / times).saturating_sub(margin).min(last)..last + 1
            };
            let columns = needed(region[0], region[2], x_times, aside, plane.width);
            let rows = needed(region[1], region[3], y_times, above, plane.height);
            self.columns.start = self.columns.start.min(columns.start / (h * size));
            self.columns.end = self.columns.end.max(columns.end.div_ceil(h * size));
            self.rows.start = self.rows.start.min(rows.start / (v * size));
            self.rows.end = self.rows.end.max(rows.end.div_ceil(v * size));
            self.planes.push(plane);
        }
    }

    /// Gives every plane its place: when the components come together, the MCU rows that are decoded at once and the one before,
    /// all needed rows otherwise.
    fn allot(&mut self, header: &Header, two_at_once: bool) {
        let together = header.scan.len == header.component_count;
        let mcu_rows = if together { 2 + usize::from(two_at_once) } else { self.rows.len() };
        for plane in &mut self.planes {
            plane.first_x = self.columns.start * plane.horizontal * plane.size;
            plane.rows = mcu_rows * plane.vertical * plane.size;
            plane.base = self.bytes;
            let samples = self.columns.len() * plane.horizontal * plane.size;
            plane.stride = (samples + 2 * PAD).next_multiple_of(PAD);
            self.bytes += plane.rows * plane.stride;
        }
    }

    /// Whether all samples for a row group are there once each plane has the rows of `mcu_rows` MCU rows.
    pub fn is_ready(&self, group: usize, mcu_rows: usize) -> bool {
        self.planes.iter().all(|plane| {
            let rows_per_group = self.group / plane.y_times;
            let last = (group + 1) * rows_per_group - 1 + usize::from(self.context);
            last.min(plane.height - 1) < mcu_rows * plane.vertical * plane.size
        })
    }
}
