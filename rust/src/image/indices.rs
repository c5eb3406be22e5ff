//! The indices of images with a palette, as their files hold them: PNG, GIF (first frame) and BMP.

use std::fmt::Display;
use std::io::Cursor;

use gif::{ColorOutput, DecodeOptions, MemoryLimit};
use png::{BitDepth, ColorType, Transformations};

use super::contents::{bmp_has_palette, in_words};
use super::fault::Fault;
use super::header::{Header, Kind};
use super::limits::{Limits, png_bytes, zeroed};
use super::mode::Stored;

/// Decodes a whole image's indices, a byte each, into a buffer.
///
/// # Errors
/// If the image has no palette, is damaged or above the limits.
pub fn indices(data: &[u8], header: &Header, limits: &Limits, whole: &mut Vec<u8>) -> Result<Stored, Fault> {
    match header.kind {
        Kind::Png if data.get(25) == Some(&3) => of_png(data, header, limits, whole)?,
        Kind::Gif => of_gif(data, header, limits, whole)?,
        Kind::Bmp if bmp_has_palette(data) => of_bmp(data, header, limits, whole)?,
        _ => {
            return Err(Fault::new(
                format!("{}, which has no palette", in_words(data, header)),
                "say Decode(mode=\"L\") for a mask whose classes are levels of grey",
            ));
        }
    }
    Ok(Stored::Index8)
}

fn damaged(header: &Header, error: impl Display) -> Fault {
    Fault::damaged(format!("a damaged {} file ({error})", header.kind.name()))
}

fn contradictory(header: &Header) -> Fault {
    damaged(header, "contradictory headers")
}

fn of_png(data: &[u8], header: &Header, limits: &Limits, whole: &mut Vec<u8>) -> Result<(), Fault> {
    let bytes = usize::try_from(png_bytes(data, header)).unwrap_or(usize::MAX);
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(data), png::Limits { bytes });
    decoder.set_transformations(Transformations::IDENTITY);
    let mut reader = decoder.read_info().map_err(|error| damaged(header, error))?;
    let (width, height) = (header.width as usize, header.height as usize);
    let (color, depth) = reader.output_color_type();
    if color != ColorType::Indexed || reader.info().size() != (header.width, header.height) {
        return Err(contradictory(header));
    }
    limits.check_whole(data, header, 1, 0)?;
    let packed = reader.output_buffer_size().ok_or_else(|| contradictory(header))?;
    whole.clear(); // passes of an interlaced image set bits among those that are there
    zeroed(whole, width * height)?;
    reader.next_frame(&mut whole[..packed]).map_err(|error| damaged(header, error))?;
    let bits = match depth {
        BitDepth::One => 1,
        BitDepth::Two => 2,
        BitDepth::Four => 4,
        _ => return Ok(()),
    };
    // From the last row to the first: packed rows never lie behind their own place.
    let line = (width * bits).div_ceil(8);
    let mut row = Vec::new();
    for y in (0..height).rev() {
        row.clear();
        row.extend_from_slice(&whole[y * line..][..line]);
        unpack(&row, bits, &mut whole[y * width..][..width]);
    }
    Ok(())
}

/// Numbers of 1, 2, 4 or 8 bits, the first in the upper bits of a byte, a byte each.
fn unpack(packed: &[u8], bits: usize, out: &mut [u8]) {
    for (x, out) in out.iter_mut().enumerate() {
        *out = packed[x * bits / 8] >> (8 - bits - x * bits % 8) & (0xFF >> (8 - bits));
    }
}

/// As Pillow: what the first frame leaves out has the index of its transparent colour, or 0.
fn of_gif(data: &[u8], header: &Header, limits: &Limits, whole: &mut Vec<u8>) -> Result<(), Fault> {
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::Indexed);
    options.set_memory_limit(MemoryLimit::Unlimited); // of what it allocates itself: nothing, where it is given a buffer
    let mut decoder = options.read_info(Cursor::new(data)).map_err(|error| damaged(header, error))?;
    let frame = decoder.next_frame_info().map_err(|error| damaged(header, error))?;
    let frame = frame.ok_or_else(|| damaged(header, "no frame"))?;
    let (left, top) = (usize::from(frame.left), usize::from(frame.top));
    let (columns, rows) = (usize::from(frame.width), usize::from(frame.height));
    let outside = frame.transparent.unwrap_or(0);
    let (width, height) = (header.width as usize, header.height as usize);
    let size = columns * rows;
    if size > 16 * width * height + (1 << 20) {
        return Err(damaged(header, "a frame much larger than the image"));
    }
    limits.check_whole(data, header, 1, size as u64)?;
    whole.clear();
    zeroed(whole, width * height)?;
    if (left, top, columns, rows) == (0, 0, width, height) {
        return decoder.read_into_buffer(whole).map_err(|error| damaged(header, error));
    }
    let mut part = Vec::new();
    zeroed(&mut part, size)?;
    decoder.read_into_buffer(&mut part).map_err(|error| damaged(header, error))?;
    whole.fill(outside);
    let seen = columns.min(width.saturating_sub(left));
    for (y, row) in (top..height).zip(part.chunks_exact(columns.max(1))) {
        if seen > 0 {
            whole[y * width + left..][..seen].copy_from_slice(&row[..seen]);
        }
    }
    Ok(())
}

/// Rows of packed indices, which begin at a multiple of four bytes, the last row first unless the height is negative.
fn of_bmp(data: &[u8], header: &Header, limits: &Limits, whole: &mut Vec<u8>) -> Result<(), Fault> {
    let number = |at: usize| data.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let is_old = number(14) == 12;
    if !is_old && number(30) != 0 {
        return Err(Fault::new("the indices of a run-length coded BMP", "store it as a plain BMP or as a PNG"));
    }
    limits.check_whole(data, header, 1, 0)?;
    let (width, height) = (header.width as usize, header.height as usize);
    let bits = usize::from(data[if is_old { 24 } else { 28 }]);
    let rows = data.get(number(10) as usize..).unwrap_or_default().chunks_exact((width * bits).div_ceil(32) * 4);
    if !matches!(bits, 1 | 2 | 4 | 8) || rows.len() < height {
        return Err(damaged(header, "it is cut short"));
    }
    let is_top_down = !is_old && number(22) > i32::MAX as u32;
    zeroed(whole, width * height)?;
    for (y, packed) in (0..height).zip(rows) {
        let y = if is_top_down { y } else { height - 1 - y };
        unpack(packed, bits, &mut whole[y * width..][..width]);
    }
    Ok(())
}
