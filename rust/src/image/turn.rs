//! Decoding an image turned, as its EXIF orientation says.

use super::decode::Decoders;
use super::exif::turned_size;
use super::fault::Fault;
use super::header::Header;
use super::limits::zeroed;
use super::mode::Mode;
use crate::core::geometry::Rect;

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
