//! The final store of a row: per-channel affine, dtype and layout, straight into the batch.

use half::{bf16, f16};

use super::mode::Mode;
use super::resample::Planes;
use super::simd::Level;

/// What a number of the result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// The pixel's byte as it is.
    Uint8,
    /// The pixel's 16 bits as they are.
    Uint16,
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
            Self::Uint16 | Self::Float16 | Self::Bfloat16 => 2,
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
    /// Numbers of a pixel: 1 to 4.
    pub channels: usize,
    /// Whether a number comes as two bytes, each in a plane of its own; of one channel.
    pub is_wide: bool,
    /// Of every number.
    pub dtype: Dtype,
    /// Of the axes.
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
        Self { height, width, channels, is_wide, dtype, layout: Layout::Nhwc, scale: [1.0; 4], bias: [0.0; 4] }
    }

    /// Bytes of one image.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.height as usize * self.width as usize * self.channels * self.dtype.size()
    }
}

/// Numbers after which the pattern of an affine repeats: a multiple of 2, 3 and 4 channels, and of 8 lanes.
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
            scale: std::array::from_fn(|place| format.scale[place % format.channels]),
            bias: std::array::from_fn(|place| format.bias[place % format.channels]),
        }
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
            [Affine::interleaved(&format); 4]
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
        if self.format.is_wide {
            let bytes = planes.plane(0).iter().zip(planes.plane(1));
            let values = bytes.map(|(&first, &second)| u16::from_ne_bytes([first, second]));
            convert_wide(values, &self.affine[0], dtype, &mut image[row * plane_bytes..][..plane_bytes]);
            return;
        }
        if layout == Layout::Nchw || channels == 1 {
            for channel in 0..channels {
                let out = &mut image[(channel * height + row) * plane_bytes..][..plane_bytes];
                self.level.convert(planes.plane(channel), &self.affine[channel], dtype, self.past_caches, out);
            }
            return;
        }
        let out = &mut image[row * channels * plane_bytes..][..channels * plane_bytes];
        if dtype == Dtype::Uint8 {
            self.level.interleave(planes, channels, out);
        } else {
            self.interleaved.resize(channels * planes.width, 0);
            self.level.interleave(planes, channels, &mut self.interleaved);
            self.level.convert(&self.interleaved, &self.affine[0], dtype, self.past_caches, out);
        }
    }
}

/// Bytes to numbers of `dtype` in plain code.
pub fn convert(bytes: &[u8], affine: &Affine, dtype: Dtype, out: &mut [u8]) {
    match dtype {
        Dtype::Uint8 => out.copy_from_slice(bytes),
        Dtype::Uint16 => store(bytes, affine, out, |value| (value as u16).to_ne_bytes()),
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

/// Numbers of 16 bits to numbers of `dtype`.
fn convert_wide(values: impl Iterator<Item = u16>, affine: &Affine, dtype: Dtype, out: &mut [u8]) {
    let (scale, bias) = (affine.scale[0], affine.bias[0]);
    let values = values.map(|value| (value, f32::from(value) * scale + bias));
    match dtype {
        Dtype::Uint8 => out.iter_mut().zip(values).for_each(|(out, (value, _))| *out = (value >> 8) as u8),
        Dtype::Uint16 => put(out, values.map(|(value, _)| value.to_ne_bytes())),
        Dtype::Float16 => put(out, values.map(|(_, value)| f16::from_f32(value).to_ne_bytes())),
        Dtype::Bfloat16 => put(out, values.map(|(_, value)| bf16::from_f32(value).to_ne_bytes())),
        Dtype::Float32 => put(out, values.map(|(_, value)| value.to_ne_bytes())),
    }
}

fn put<const SIZE: usize>(out: &mut [u8], values: impl Iterator<Item = [u8; SIZE]>) {
    out.as_chunks_mut::<SIZE>().0.iter_mut().zip(values).for_each(|(out, value)| *out = value);
}

/// Planes to interleaved pixels of so many bytes.
pub fn interleave_any(planes: Planes<'_>, channels: usize, out: &mut [u8]) {
    for channel in 0..channels {
        let places = out.iter_mut().skip(channel).step_by(channels);
        places.zip(planes.plane(channel)).for_each(|(out, &byte)| *out = byte);
    }
}

/// Three planes to interleaved pixels in plain code.
pub fn interleave(planes: Planes<'_>, out: &mut [u8]) {
    let (red, green, blue) = (planes.plane(0), planes.plane(1), planes.plane(2));
    for (index, pixel) in out.as_chunks_mut::<3>().0.iter_mut().enumerate() {
        *pixel = [red[index], green[index], blue[index]];
    }
}
