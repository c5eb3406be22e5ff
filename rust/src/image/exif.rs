//! The orientation that a camera noted (EXIF 2.32, tag 0x0112).

use super::header::{Kind, jpeg_segments};
use super::tiff::Tiff;

const ORIENTATION: u16 = 0x0112;

/// The orientation of an encoded image, 1 to 8; 1 (as stored) where there is none or it makes no sense.
#[must_use]
pub fn orientation(data: &[u8], kind: Kind) -> u8 {
    let exif = match kind {
        Kind::Jpeg => jpeg_segments(data)
            .filter(|segment| segment.0 == 0xE1)
            .find_map(|segment| segment.1.strip_prefix(b"Exif\0\0")),
        Kind::Png => png_chunks(data).find(|chunk| chunk.0 == *b"eXIf").map(|chunk| chunk.1),
        Kind::Webp => webp_chunks(data).find(|chunk| chunk.0 == *b"EXIF").map(|chunk| chunk.1),
        Kind::Tiff => Some(data),
        // JPEG XL is turned by its decoder.
        Kind::Bmp | Kind::Gif | Kind::Pnm | Kind::Jxl => None,
    };
    exif.and_then(from_tiff).filter(|value| (1..=8).contains(value)).unwrap_or(1)
}

/// A PNG's chunks: (name, contents).
pub(super) fn png_chunks(data: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    let mut at = 8;
    std::iter::from_fn(move || {
        let length = u32::from_be_bytes(*data.get(at..)?.first_chunk()?) as usize;
        let name = *data.get(at + 4..)?.first_chunk()?;
        let contents = data.get(at + 8..)?.get(..length)?;
        at += length + 12;
        Some((name, contents))
    })
}

/// A WebP's chunks: (name, contents).
fn webp_chunks(data: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    let mut at = 12;
    std::iter::from_fn(move || {
        let name = *data.get(at..)?.first_chunk()?;
        let length = u32::from_le_bytes(*data.get(at + 4..)?.first_chunk()?) as usize;
        let contents = data.get(at + 8..)?.get(..length)?;
        at += 8 + length + length % 2;
        Some((name, contents))
    })
}

/// The orientation in EXIF's TIFF structure, which may or may not carry its own prefix.
fn from_tiff(data: &[u8]) -> Option<u8> {
    let tiff = data.strip_prefix(b"Exif\0\0").unwrap_or(data);
    let tiff = Tiff::new(tiff)?;
    let entry = tiff.entry(ORIENTATION)?;
    u8::try_from(tiff.short(entry + 8)?).ok()
}

/// The width and height of an image after it is turned.
#[must_use]
pub const fn turned_size(size: (u32, u32), orientation: u8) -> (u32, u32) {
    if orientation >= 5 { (size.1, size.0) } else { size }
}
