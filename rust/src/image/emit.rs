//! The final store of a row: per-channel affine, dtype and layout, straight into the batch.

#[cfg(target_arch = "x86_64")]
use super::emit_avx2;
use super::mode::Mode;
use super::numbers::{self, Affine, Dtype};
use super::resample::Planes;
use super::simd::Level;

/// The order of the axes of one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Channel, row, column.
    Nchw,
    /// Row, column, channel.
    Nhwc,
}

/// What one image of the result looks like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Format {
    /// Rows, of all crops together.
    pub height: u32,
    /// Columns.
    pub width: u32,
    /// Numbers of a pixel: 1 to 4.
    pub channels: usize,
    /// Whether a number comes as two bytes, each in a plane of its own; of one channel.
    pub is_wide: bool,
    /// Of every number.
    pub dtype: Dtype,
    /// How many images of equal height lie one below another; in the result each is one of its own.
    pub crops: u32,
    /// Of the axes, within each of these.
    pub layout: Layout,
    /// A float is number × scale + bias, by channel, in float32; bytes stay as they are.
    pub scale: [f32; 4],
    /// See `scale`.
    pub bias: [f32; 4],
}

impl Format {
    /// Interleaved pixels of a mode, of the given width and height.
    #[must_use]
    pub const fn pixels(mode: Mode, width: u32, height: u32) -> Self {
        let dtype = if mode.is_wide() { Dtype::Uint16 } else { Dtype::Uint8 };
        let (channels, is_wide) = (mode.channels(), mode.is_wide());
        Self {
            height,
            width,
            channels,
            is_wide,
            dtype,
            crops: 1,
            layout: Layout::Nhwc,
            scale: [1.0; 4],
            bias: [0.0; 4],
        }
    }

    /// Bytes of one image.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.height as usize * self.width as usize * self.channels * self.dtype.size()
    }
}

/// Stores rows of one image format; made once a batch.
#[derive(Clone, Debug)]
pub struct Emitter {
    level: Level,
    format: Format,
    affine: [Affine; 4],
    interleaved: Vec<u8>,
    past_caches: bool,
}

impl Emitter {
    /// An emitter for `format` that uses the given instructions.
    #[must_use]
    pub fn new(level: Level, format: Format) -> Self {
        let affine = if format.layout == Layout::Nhwc && format.channels > 1 {
            [Affine::interleaved(format.channels, format.scale, format.bias); 4]
        } else {
            std::array::from_fn(|channel| Affine::one(format.scale[channel], format.bias[channel]))
        };
        Self { level, format, affine, interleaved: Vec::new(), past_caches: false }
    }

    /// Whether images are stored past the caches from now on; then [`Self::finish`] each.
    pub const fn set_past_caches(&mut self, past_caches: bool) {
        self.past_caches = past_caches;
    }

    /// Completes an image, so that other threads may read it.
    pub fn finish(&self) {
        #[cfg(target_arch = "x86_64")]
        if let (true, Level::Avx2(token)) = (self.past_caches, self.level) {
            emit_avx2::finish(token);
        }
    }

    /// The format that this emitter stores.
    #[must_use]
    pub const fn format(&self) -> &Format {
        &self.format
    }

    /// Stores row `row` of an image into `image`, all of whose [`Format::bytes`] it holds.
    pub fn store(&mut self, row: u32, planes: Planes<'_>, image: &mut [u8]) {
        let Format { height, width, channels, crops, dtype, layout, .. } = self.format;
        let (row, height, plane_bytes) = (row as usize, (height / crops) as usize, width as usize * dtype.size());
        if self.format.is_wide {
            let bytes = planes.plane(0).iter().zip(planes.plane(1));
            let values = bytes.map(|(&first, &second)| u16::from_ne_bytes([first, second]));
            numbers::convert_wide(values, &self.affine[0], dtype, &mut image[row * plane_bytes..][..plane_bytes]);
            return;
        }
        if layout == Layout::Nchw || channels == 1 {
            let (crop, row) = (row / height, row % height);
            for channel in 0..channels {
                let out = &mut image[((crop * channels + channel) * height + row) * plane_bytes..][..plane_bytes];
                convert(self.level, planes.plane(channel), &self.affine[channel], dtype, self.past_caches, out);
            }
            return;
        }
        let out = &mut image[row * channels * plane_bytes..][..channels * plane_bytes];
        if dtype == Dtype::Uint8 {
            interleave(self.level, planes, channels, out);
        } else {
            self.interleaved.resize(channels * planes.width, 0);
            interleave(self.level, planes, channels, &mut self.interleaved);
            convert(self.level, &self.interleaved, &self.affine[0], dtype, self.past_caches, out);
        }
    }
}

/// Bytes to numbers; `out` holds exactly as many as there are bytes. `past_caches` is a hint for results that are not read soon.
fn convert(level: Level, bytes: &[u8], affine: &Affine, dtype: Dtype, past_caches: bool, out: &mut [u8]) {
    match level {
        Level::Scalar => numbers::convert(bytes, affine, dtype, out),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2(token) => emit_avx2::convert(token, bytes, affine, dtype, past_caches, out),
    }
}

/// Planes to pixels; `out` holds exactly `channels` bytes a pixel.
fn interleave(level: Level, planes: Planes<'_>, channels: usize, out: &mut [u8]) {
    match level {
        _ if channels != 3 => numbers::interleave_any(planes, channels, out),
        Level::Scalar => numbers::interleave(planes, out),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2(token) => emit_avx2::interleave(token, planes, out),
    }
}
