//! Bytes to the numbers of a result, in plain code: affine and dtype; and planes to pixels.

use half::{bf16, f16};

use super::resample::Planes;

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
    /// Of one channel.
    #[must_use]
    pub const fn one(scale: f32, bias: f32) -> Self {
        Self { scale: [scale; PERIOD], bias: [bias; PERIOD] }
    }

    /// Of pixels with so many channels, which lie one behind the other.
    #[must_use]
    pub fn interleaved(channels: usize, scale: [f32; 4], bias: [f32; 4]) -> Self {
        let repeated = |numbers: [f32; 4]| std::array::from_fn(|place| numbers[place % channels]);
        Self { scale: repeated(scale), bias: repeated(bias) }
    }

    /// The pattern as it goes on from its number `first`.
    #[must_use]
    pub fn rotated(&self, first: usize) -> Self {
        let mut rotated = *self;
        rotated.scale.rotate_left(first);
        rotated.bias.rotate_left(first);
        rotated
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
pub fn convert_wide(values: impl Iterator<Item = u16>, affine: &Affine, dtype: Dtype, out: &mut [u8]) {
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
