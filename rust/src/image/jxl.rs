//! JPEG XL (ISO/IEC 18181): the codestream of a file, and what its header says. `jxl_pixels` decodes it.
//!
//! Boxes are walked here, and the decoder sees the codestream alone: metadata, which a few bytes may blow up, is never unpacked.

use std::borrow::Cow;
use std::fmt::Display;

use jxl_bitstream::Bitstream;
use jxl_oxide::image::{BitDepth, ImageHeader};
use jxl_oxide_common::Bundle;

use super::fault::Fault;
use super::mode::Stored;

/// Real colour profiles have some kilobytes; larger ones would be unpacked before anything else is looked at.
const PROFILE_BYTES: u64 = 4 << 20;

/// Width and height as the image is to be seen.
pub(super) fn size(data: &[u8]) -> Option<(u32, u32)> {
    let header = described(&mut Bitstream::new(&codestream(data))).ok()?;
    Some((header.width_with_orientation(), header.height_with_orientation()))
}

/// How the pixels of a file are stored once they are decoded.
pub(super) fn stored(data: &[u8]) -> Result<Stored, Fault> {
    stored_of(&described(&mut Bitstream::new(&codestream(data)))?)
}

/// The bytes of the codestream: the whole file, or what its boxes hold of it.
pub(super) fn codestream(data: &[u8]) -> Cow<'_, [u8]> {
    if data.starts_with(&[0xFF, 0x0A]) {
        return Cow::Borrowed(data);
    }
    let parts: Vec<&[u8]> = boxes(data)
        .filter_map(|(name, contents)| match &name {
            b"jxlc" => Some(contents),
            b"jxlp" => contents.get(4..), // behind the part's number
            _ => None,
        })
        .collect();
    if let [part] = parts[..] { Cow::Borrowed(part) } else { Cow::Owned(parts.concat()) }
}

/// A file's boxes (ISO/IEC 18181-2): (name, contents), the last of which may be cut short.
fn boxes(data: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    let mut rest = data;
    std::iter::from_fn(move || {
        let size = u32::from_be_bytes(*rest.first_chunk()?) as usize;
        let name = *rest.get(4..)?.first_chunk()?;
        let (begin, end) = match size {
            0 => (8, rest.len()),
            1 => (16, usize::try_from(u64::from_be_bytes(*rest.get(8..)?.first_chunk()?)).ok()?),
            _ => (8, size),
        };
        let contents = rest.get(begin..end.min(rest.len()))?;
        rest = &rest[begin + contents.len()..];
        Some((name, contents))
    })
}

pub(super) fn damaged(error: impl Display) -> Fault {
    Fault::damaged(format!("a damaged JPEG XL file ({error})"))
}

fn described(bits: &mut Bitstream<'_>) -> Result<ImageHeader, Fault> {
    ImageHeader::parse(bits, ()).map_err(damaged)
}

/// How pixels will be stored, of a file whose header claims nothing that is not to be unpacked.
pub(super) fn check(codestream: &[u8]) -> Result<Stored, Fault> {
    let mut bits = Bitstream::new(codestream);
    let header = described(&mut bits)?;
    if header.metadata.colour_encoding.want_icc() {
        let bytes = bits.read_u64().map_err(damaged)?;
        if bytes > PROFILE_BYTES {
            return Err(damaged(format!("a colour profile of {bytes} bytes")));
        }
    }
    stored_of(&header)
}

fn stored_of(header: &ImageHeader) -> Result<Stored, Fault> {
    let metadata = &header.metadata;
    let unread = |what: String, remedy: &str| Err(Fault::new(format!("a JPEG XL file of {what}"), remedy));
    if metadata.ec_info.iter().any(|channel| channel.is_black()) {
        return unread("four inks (CMYK)".into(), "convert it to RGB");
    }
    let is_wide = match metadata.bit_depth {
        BitDepth::IntegerSample { bits_per_sample } if bits_per_sample <= 16 => bits_per_sample > 8,
        BitDepth::IntegerSample { bits_per_sample } => {
            return unread(format!("{bits_per_sample} bits a sample"), "store it with 16 bits or fewer");
        }
        BitDepth::FloatSample { .. } => {
            return unread("floating-point numbers".into(), "store it as integers of 16 bits or fewer");
        }
    };
    Ok(match (metadata.grayscale(), metadata.alpha().is_some(), is_wide) {
        (true, false, false) => Stored::Grey8,
        (true, false, true) => Stored::Grey16,
        (true, true, false) => Stored::GreyAlpha8,
        (true, true, true) => Stored::GreyAlpha16,
        (false, false, false) => Stored::Rgb8,
        (false, false, true) => Stored::Rgb16,
        (false, true, false) => Stored::Rgba8,
        (false, true, true) => Stored::Rgba16,
    })
}
