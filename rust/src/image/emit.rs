//! The final store of a row: per-channel affine, dtype and layout, straight into the batch.

use half::{bf16, f16};

use super::resample::Planes;
use super::simd::Level;

/// What a number of the result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// The pixel's byte as it is.
    Uint8,
    /// IEEE half precision.
    Float16,
    /// The upper half of a float32, rounded to the nearest even.
    Bfloat16,
    /// IEEE single precision.
    Float32,
}

impl Dtype {
    /// Bytes of one number.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Uint8 => 1,
            Self::Float16 | Self::Bfloat16 => 2,
            Self::Float32 => 4,
        }
    }
}

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
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
    /// 3, or 1 to keep only the first.
    pub channels: usize,
    /// Of every number.
    pub dtype: Dtype,
    /// Of the axes.
    pub layout: Layout,
    /// A float is byte × scale + bias, by channel, in float32; bytes stay as they are.
    pub scale: [f32; 3],
    /// See `scale`.
    pub bias: [f32; 3],
}

impl Format {
    /// Interleaved RGB8 of the given width and height.
    #[must_use]
    pub const fn rgb8(width: u32, height: u32) -> Self {
        let (dtype, layout) = (Dtype::Uint8, Layout::Nhwc);
        Self { height, width, channels: 3, dtype, layout, scale: [1.0; 3], bias: [0.0; 3] }
    }

    /// Bytes of one image.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.height as usize * self.width as usize * self.channels * self.dtype.size()
    }
}

/// Numbers after which the pattern of an affine repeats: a multiple of 3 channels and of 8 lanes.
pub const PERIOD: usize = 24;

/// A scale and bias for each of a repeating run of numbers.
#[derive(Clone, Copy, Debug)]
pub struct Affine {
    /// Factors.
    pub scale: [f32; PERIOD],
    /// Summands.
    pub bias: [f32; PERIOD],
}

impl Affine {
    fn one(format: &Format, channel: usize) -> Self {
        Self { scale: [format.scale[channel]; PERIOD], bias: [format.bias[channel]; PERIOD] }
    }

    /// The pattern as it goes on from its number `first`.
    #[must_use]
    pub fn rotated(&self, first: usize) -> Self {
        let mut rotated = *self;
        rotated.scale.rotate_left(first);
        rotated.bias.rotate_left(first);
        rotated
    }

    fn interleaved(format: &Format) -> Self {
        Self {
            scale: std::array::from_fn(|place| format.scale[place % 3]),
            bias: std::array::from_fn(|place| format.bias[place % 3]),
        }
    }
}

/// Stores rows of one image format; made once a batch.
#[derive(Clone, Debug)]
pub struct Emitter {
    level: Level,
    format: Format,
    affine: [Affine; 3],
    interleaved: Vec<u8>,
    past_caches: bool,
}

impl Emitter {
    /// An emitter for `format` that uses the given instructions.
    #[must_use]
    pub fn new(level: Level, format: Format) -> Self {
        let affine = if format.layout == Layout::Nhwc && format.channels == 3 {
            [Affine::interleaved(&format); 3]
        } else {
            std::array::from_fn(|channel| Affine::one(&format, channel))
        };
        Self { level, format, affine, interleaved: Vec::new(), past_caches: false }
    }

    /// Whether images are stored past the caches from now on; then [`Self::finish`] each.
    pub const fn set_past_caches(&mut self, past_caches: bool) {
        self.past_caches = past_caches;
    }

    /// Completes an image, so that other threads may read it.
    pub fn finish(&self) {
        if self.past_caches {
            self.level.finish();
        }
    }

    /// The format that this emitter stores.
    #[must_use]
    pub const fn format(&self) -> &Format {
        &self.format
    }

    /// Stores row `row` of an image into `image`, all of whose [`Format::bytes`] it holds.
    pub fn store(&mut self, row: u32, planes: Planes<'_>, image: &mut [u8]) {
        let Format { height, width, channels, dtype, layout, .. } = self.format;
        let (row, height, plane_bytes) = (row as usize, height as usize, width as usize * dtype.size());
        if layout == Layout::Nchw || channels == 1 {
            for channel in 0..channels {
                let out = &mut image[(channel * height + row) * plane_bytes..][..plane_bytes];
                self.level.convert(planes.plane(channel), &self.affine[channel], dtype, self.past_caches, out);
            }
            return;
        }
        let out = &mut image[row * 3 * plane_bytes..][..3 * plane_bytes];
        if dtype == Dtype::Uint8 {
            self.level.interleave(planes, out);
        } else {
            self.interleaved.resize(3 * planes.width, 0);
            self.level.interleave(planes, &mut self.interleaved);
            self.level.convert(&self.interleaved, &self.affine[0], dtype, self.past_caches, out);
        }
    }
}

/// Bytes to numbers of `dtype` in plain code.
pub fn convert(bytes: &[u8], affine: &Affine, dtype: Dtype, out: &mut [u8]) {
    match dtype {
        Dtype::Uint8 => out.copy_from_slice(bytes),
        Dtype::Float16 => store(bytes, affine, out, |value| f16::from_f32(value).to_ne_bytes()),
        Dtype::Bfloat16 => store(bytes, affine, out, |value| bf16::from_f32(value).to_ne_bytes()),
        Dtype::Float32 => store(bytes, affine, out, f32::to_ne_bytes),
    }
}

fn store<const SIZE: usize>(bytes: &[u8], affine: &Affine, out: &mut [u8], encode: impl Fn(f32) -> [u8; SIZE]) {
    let (numbers, _) = out.as_chunks_mut::<SIZE>();
    for (bytes, numbers) in bytes.chunks(PERIOD).zip(numbers.chunks_mut(PERIOD)) {
        for (place, (&byte, number)) in bytes.iter().zip(numbers).enumerate() {
            *number = encode(f32::from(byte) * affine.scale[place] + affine.bias[place]);
        }
    }
}

/// Three planes to interleaved pixels in plain code.
pub fn interleave(planes: Planes<'_>, out: &mut [u8]) {
    let (red, green, blue) = (planes.plane(0), planes.plane(1), planes.plane(2));
    for (index, pixel) in out.as_chunks_mut::<3>().0.iter_mut().enumerate() {
        *pixel = [red[index], green[index], blue[index]];
    }
}
