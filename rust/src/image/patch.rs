//! Parts of an image whose numbers are replaced once they are emitted: what is erased behind Normalize.

use half::{bf16, f16};

use super::emit::{Format, Layout};
use super::moves::Window;
use super::numbers::Dtype;
use crate::core::draws::Normals;
use crate::core::keys::mix;

/// What the pixels of a part become.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A number of each channel.
    Fixed([f64; 4]),
    /// Normal numbers, one for each channel of each pixel, which come of this key.
    Noise(u64),
}

/// What a number of an image's pixel has become at a place in its chain: number × scale + bias, by channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// Factors.
    pub scale: [f32; 4],
    /// Summands.
    pub bias: [f32; 4],
}

/// A part of the result, and what it becomes. The value counts in `unit`; what the chain does to numbers from there on is done to it too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patch {
    /// Of the result; what lies outside of it is nothing.
    pub part: Window,
    /// Instead of what stands there.
    pub value: Value,
    /// Of the value.
    pub unit: Unit,
}

impl Patch {
    /// Writes it into `image`, all of whose [`Format::bytes`] it holds.
    pub fn write(&self, format: &Format, image: &mut [u8]) {
        match format.dtype {
            Dtype::Uint8 => self.write_as(format, image, |value| [value as u8]),
            Dtype::Uint16 => self.write_as(format, image, |value| (value as u16).to_ne_bytes()),
            Dtype::Float16 => self.write_as(format, image, |value| f16::from_f32(value).to_ne_bytes()),
            Dtype::Bfloat16 => self.write_as(format, image, |value| bf16::from_f32(value).to_ne_bytes()),
            Dtype::Float32 => self.write_as(format, image, f32::to_ne_bytes),
        }
    }

    fn write_as<const SIZE: usize>(&self, format: &Format, image: &mut [u8], encode: impl Fn(f32) -> [u8; SIZE]) {
        let (height, width, channels) = (format.height as usize, format.width as usize, format.channels);
        let part = self.part.intersect(Window::whole((format.width, format.height)));
        if part.is_empty() {
            return;
        }
        let (left, top) = (part.x as usize, part.y as usize);
        let (numbers, _) = image.as_chunks_mut::<SIZE>();
        for channel in 0..channels {
            let (scale, bias) = self.to_the_end(format, channel);
            let encoded = |value: f64| encode((value * scale + bias) as f32);
            let key = if let Value::Noise(key) = self.value { key } else { 0 };
            let mut noise = Normals::new(mix(&[key, channel as u64]));
            for y in top..top + part.height as usize {
                let (first, step) = match format.layout {
                    Layout::Nchw => ((channel * height + y) * width + left, 1),
                    Layout::Nhwc => ((y * width + left) * channels + channel, channels),
                };
                let row = numbers[first..].iter_mut().step_by(step).take(part.width as usize);
                match self.value {
                    Value::Fixed(values) => row.for_each(|out| *out = encoded(values[channel])),
                    Value::Noise(_) => row.for_each(|out| *out = encoded(noise.draw())),
                }
            }
        }
    }

    /// By what a value of a channel is multiplied, and what is added: exactly 1 and 0 if the chain does nothing more to it.
    fn to_the_end(self, format: &Format, channel: usize) -> (f64, f64) {
        let Unit { scale, bias } = &self.unit;
        let factor = f64::from(format.scale[channel]) / f64::from(scale[channel]);
        (factor, f64::from(format.bias[channel]) - f64::from(bias[channel]) * factor)
    }
}
