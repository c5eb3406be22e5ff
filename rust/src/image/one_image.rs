//! One image alone: its header, its pixels, the size that a program gives it.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::contents;
use super::decode::Decoders;
use super::exif;
use super::fault::Fault;
use super::header;
use super::limits::{Limits, try_memory};
use super::mode::Mode;
use super::program::Program;
use super::turn::turned;
use crate::core::geometry::Rect;

thread_local! {
    static DECODERS: RefCell<Option<Decoders>> = const { RefCell::new(None) };
}

/// Width, height and format's name, from the header alone.
///
/// # Errors
/// If the bytes are not an image.
pub fn info(data: &[u8], apply_exif: bool) -> Result<(u32, u32, &'static str), Fault> {
    let header = header::read(data, u64::MAX)?;
    let orientation = if apply_exif { exif::orientation(data, header.kind) } else { 1 };
    let (width, height) = exif::turned_size((header.width, header.height), orientation);
    Ok((width, height, header.kind.name()))
}

/// The mode that holds an encoded image unchanged.
///
/// # Errors
/// If the bytes are not an image, or no mode holds it.
pub fn mode(data: &[u8]) -> Result<Mode, Fault> {
    contents::mode(data, &header::read(data, u64::MAX)?)
}

/// Width and height, and the interleaved pixels of `mode`.
///
/// # Errors
/// If the bytes are not a valid image, or one above the limit.
pub fn decode(data: &[u8], mode: Mode, apply_exif: bool, limits: Limits) -> Result<((u32, u32), Vec<u8>), Fault> {
    let whole = || {
        let header = header::read(data, limits.pixels)?;
        let orientation = if apply_exif { exif::orientation(data, header.kind) } else { 1 };
        // Taken, not borrowed: a decoder that panics is not used again.
        let mut decoders = DECODERS.take().unwrap_or_default();
        (decoders.limits, decoders.is_watching) = (limits, false);
        let (mut size, mut pixels) = ((header.width, header.height), Vec::new());
        let result = if orientation == 1 {
            let region = Rect { x: 0, y: 0, width: size.0, height: size.1 };
            let bytes = size.0 as usize * size.1 as usize * mode.bytes();
            try_memory(bytes as u64)?;
            pixels.reserve_exact(bytes);
            decoders.rows(data, &header, None, region, mode, &mut |_, rows| pixels.extend_from_slice(rows))
        } else {
            turned(&mut decoders, data, &header, orientation, mode, &mut pixels).map(|turned| size = turned)
        };
        DECODERS.set(Some(decoders));
        result.map(|()| (size, pixels))
    };
    catch_unwind(AssertUnwindSafe(whole)).unwrap_or_else(|panic| Err(Fault::of_panic(&*panic)))
}

/// Width and height that a program's operations give to an encoded image.
///
/// # Errors
/// If the bytes are not an image, or one above the program's limit.
pub fn size_after(program: &Program, data: &[u8]) -> Result<(u32, u32), Fault> {
    size_from(program, size_at_start(program, data)?)
}

/// Width and height of an encoded image where a program's operations begin.
///
/// # Errors
/// If the bytes are not an image, or one above the program's limit.
pub fn size_at_start(program: &Program, data: &[u8]) -> Result<(u32, u32), Fault> {
    let header = header::read(data, program.limits.pixels)?;
    let orientation = if program.apply_exif { exif::orientation(data, header.kind) } else { 1 };
    Ok(exif::turned_size((header.width, header.height), orientation))
}

/// Width and height that a program's operations give to an image of the given width and height.
///
/// # Errors
/// If an intermediate image would be above the program's limit.
pub fn size_from(program: &Program, size: (u32, u32)) -> Result<(u32, u32), Fault> {
    program.size_after(size)
}
