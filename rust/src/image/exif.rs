//! The orientation that a camera noted (EXIF 2.32, tag 0x0112), and turning an image accordingly.

use super::decode::Decoders;
use super::fault::Fault;
use super::header::{Header, Kind, jpeg_segments};
use super::limits::zeroed;
use super::mode::Mode;
use crate::core::geometry::Rect;

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
        Kind::Bmp | Kind::Gif => None,
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
    let big = match tiff.get(..4)? {
        b"MM\0*" => true,
        b"II*\0" => false,
        _ => return None,
    };
    let short = |at: usize| -> Option<u16> {
        let bytes = *tiff.get(at..)?.first_chunk()?;
        Some(if big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    };
    let bytes = *tiff.get(4..)?.first_chunk()?;
    let directory = if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) } as usize;
    let entries = usize::from(short(directory)?);
    let entry = (0..entries)
        .map(|index| directory + 2 + index * 12)
        .take_while(|&at| at < tiff.len())
        .find(|&at| short(at) == Some(ORIENTATION))?;
    u8::try_from(short(entry + 8)?).ok()
}

/// The width and height of an image after it is turned.
#[must_use]
pub const fn turned_size(size: (u32, u32), orientation: u8) -> (u32, u32) {
    if orientation >= 5 { (size.1, size.0) } else { size }
}

/// Decodes the whole image into `out` as pixels of `mode`, turned; returns its width and height.
///
/// # Errors
/// If the image cannot be decoded.
pub fn turned(
    decoders: &mut Decoders,
    data: &[u8],
    header: &Header,
    orientation: u8,
    mode: Mode,
    out: &mut Vec<u8>,
) -> Result<(u32, u32), Fault> {
    match mode.bytes() {
        1 => turned_by::<1>(decoders, data, header, orientation, mode, out),
        2 => turned_by::<2>(decoders, data, header, orientation, mode, out),
        3 => turned_by::<3>(decoders, data, header, orientation, mode, out),
        _ => turned_by::<4>(decoders, data, header, orientation, mode, out),
    }
}

fn turned_by<const BYTES: usize>(
    decoders: &mut Decoders,
    data: &[u8],
    header: &Header,
    orientation: u8,
    mode: Mode,
    out: &mut Vec<u8>,
) -> Result<(u32, u32), Fault> {
    let (width, height) = (header.width as usize, header.height as usize);
    let size = turned_size((header.width, header.height), orientation);
    zeroed(out, width * height * BYTES)?;
    let line = size.0 as usize;
    let region = Rect { x: 0, y: 0, width: header.width, height: header.height };
    decoders.rows(data, header, None, region, mode, &mut |first, rows| {
        if orientation == 1 {
            out[first as usize * width * BYTES..][..rows.len()].copy_from_slice(rows);
            return;
        }
        for (y, row) in (first as usize..).zip(rows.chunks_exact(width * BYTES)) {
            for (x, pixel) in row.as_chunks::<BYTES>().0.iter().enumerate() {
                let (right, bottom) = (width - 1 - x, height - 1 - y);
                let (column, row) = match orientation {
                    2 => (right, y),
                    3 => (right, bottom),
                    4 => (x, bottom),
                    5 => (y, x),
                    6 => (bottom, x),
                    7 => (bottom, right),
                    8 => (y, right),
                    _ => (x, y),
                };
                out[(row * line + column) * BYTES..][..BYTES].copy_from_slice(pixel);
            }
        }
    })?;
    Ok(size)
}
