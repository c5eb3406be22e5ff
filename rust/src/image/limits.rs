//! The most that one image may ask for, and whether the machine has it.

use super::fault::Fault;
use super::filter::{AxisTask, Filter, Scaling};
use super::header::{Header, Kind};
use super::resample::{Task, pitch_of};

/// What one image may ask for; `penstock.Limits` has the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Width times height before any crop, and of any intermediate image.
    pub pixels: u64,
    /// The image in its full form, as its file stores the pixels; also what a resize holds besides.
    pub image_bytes: u64,
    /// The full form over the file's size, of large images.
    pub ratio: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { pixels: 1 << 28, image_bytes: 1 << 30, ratio: 1_100 }
    }
}

/// Buffers larger than this are given back after each image.
pub const KEEP_BYTES: usize = 64 << 20;

/// Images up to this size need no proof that they are not made to fill the memory.
const UNSUSPICIOUS_BYTES: u64 = 256 << 20;
/// Allocations from this size on are tried first: smaller ones do not decide whether a process has enough.
const TRIED_BYTES: u64 = 64 << 20;
/// Deflate stores up to 258 bytes in two bits.
const DEFLATE_RATIO: u64 = 1_032;
/// Bytes for each weight of a resize: as computed, rounded, and in the order of the SIMD code.
const WEIGHT_BYTES: f64 = 20.0;

impl Limits {
    /// Checks an image that is held whole, `size` bytes a pixel, by a decoder that takes `besides` bytes more.
    ///
    /// # Errors
    /// If that is above the limits, more than the file can hold, or more than the process may have.
    pub fn check_whole(&self, data: &[u8], header: &Header, size: usize, besides: u64) -> Result<(), Fault> {
        let pixels = u64::from(header.width) * u64::from(header.height);
        let bytes = pixels * size as u64;
        let (name, width, height) = (header.kind.name(), header.width, header.height);
        if bytes > self.image_bytes {
            return Err(Fault::new(
                format!(
                    "a {name} image of {width} × {height} pixels that takes {bytes} bytes decoded, above the limit of {}",
                    self.image_bytes
                ),
                "raise Limits(image_bytes=…) if such images are expected",
            ));
        }
        check_stored(data, header)?;
        if header.kind != Kind::Png && bytes > UNSUSPICIOUS_BYTES.max(self.ratio.saturating_mul(data.len() as u64)) {
            return Err(Fault::new(
                format!(
                    "a {name} image of {width} × {height} pixels in {} bytes, which would become {bytes}: more than \
                     {} times as many",
                    data.len(),
                    self.ratio
                ),
                "raise Limits(ratio=…) if such images are expected",
            ));
        }
        try_memory(bytes.saturating_add(besides))
    }

    /// Checks what a resize holds: its weights, and the rows of each plane that are combined.
    ///
    /// # Errors
    /// If that is above the limit of an image's bytes, or more than the process may have.
    pub fn check_resize(&self, task: &Task, planes: usize) -> Result<(), Fault> {
        let bytes = resize_bytes(task, planes);
        // Places of rows are numbers of 32 bits.
        let limit = self.image_bytes.min(u64::from(u32::MAX));
        if bytes <= limit as f64 {
            return try_memory(bytes as u64);
        }
        let ((from_width, from_height), (width, height)) = (task.source, task.target);
        Err(Fault::new(
            format!(
                "an image of {from_width} × {from_height} pixels whose resize to {width} × {height} holds {bytes:.0} \
                 bytes, above the limit of {limit}"
            ),
            "crop first, or raise Limits(image_bytes=…) if such images are expected",
        ))
    }
}

/// Fails where the process may not have so many bytes: what decoders allocate by themselves ends the process instead.
///
/// # Errors
/// If the allocation fails.
pub fn try_memory(bytes: u64) -> Result<(), Fault> {
    if bytes < TRIED_BYTES {
        return Ok(());
    }
    let tried = usize::try_from(bytes).is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok());
    if tried {
        return Ok(());
    }
    Err(Fault::new(
        format!("an image that takes {bytes} bytes while it is decoded, more than this process may have"),
        "give the process more memory, or refuse such images with Limits(image_bytes=…)",
    ))
}

/// Gives a buffer a length; what it held before may stand in it.
///
/// # Errors
/// If the process may not have that much memory.
pub fn zeroed(buffer: &mut Vec<u8>, bytes: usize) -> Result<(), Fault> {
    if bytes <= buffer.capacity().max(KEEP_BYTES) {
        buffer.resize(bytes, 0);
        return Ok(());
    }
    *buffer = Vec::new();
    try_memory(bytes as u64)?;
    // Pages that nobody writes take no memory: of a damaged image, what its file does not hold.
    *buffer = vec![0; bytes];
    Ok(())
}

/// What a PNG's decoder may allocate: a compressed colour profile, which nothing uses, may claim any size; chunks are held as they lie in the
/// file, and a row of pixels.
#[must_use]
pub fn png_bytes(data: &[u8], header: &Header) -> u64 {
    (data.len() as u64 + u64::from(header.width) * 8) * 4 + (64 << 20)
}

/// Refuses headers of PNG and BMP that state more pixels than the file can hold.
fn check_stored(data: &[u8], header: &Header) -> Result<(), Fault> {
    let (pixels, bytes) = (u64::from(header.width) * u64::from(header.height), data.len() as u64);
    let (bits, most) = match header.kind {
        Kind::Png => (png_bits(data), bytes.saturating_mul(DEFLATE_RATIO)),
        Kind::Bmp => (plain_bmp_bits(data), bytes),
        _ => (0, u64::MAX),
    };
    if pixels.saturating_mul(bits) / 8 <= most {
        return Ok(());
    }
    let (name, width, height) = (header.kind.name(), header.width, header.height);
    Err(Fault::damaged(format!("a damaged {name} file (it states {width} × {height} pixels in {bytes} bytes)")))
}

/// Bits of a pixel in a PNG; 0 if its header does not say.
fn png_bits(data: &[u8]) -> u64 {
    let [Some(&depth), Some(&colour)] = [data.get(24), data.get(25)] else { return 0 };
    let samples = match colour {
        2 => 3,
        4 => 2,
        6 => 4,
        _ => 1,
    };
    u64::from(depth) * samples
}

/// Bits of a pixel in an uncompressed BMP with a usual header; 0 otherwise.
fn plain_bmp_bits(data: &[u8]) -> u64 {
    let number = |at: usize| data.get(at..).and_then(<[u8]>::first_chunk).map(|bytes| u32::from_le_bytes(*bytes));
    let is_plain = number(14).is_some_and(|header| header >= 40) && matches!(number(30), Some(0 | 3));
    let bits = data.get(28..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u16::from_le_bytes(*bytes));
    if is_plain { u64::from(bits) } else { 0 }
}

/// About as many bytes as a resize holds, at most.
fn resize_bytes(task: &Task, planes: usize) -> f64 {
    let Task { source, target, scaling, window, .. } = *task;
    let axis =
        |source, target, first, count| AxisTask { source, target, first, count, mirrored: false, reversed: false };
    let columns = axis(source.0, target.0, window.x, window.width);
    let rows = axis(source.1, target.1, window.y, window.height);
    let ring = most_taps(&rows, scaling) * (planes * pitch_of(window.width as usize)) as f64;
    axis_bytes(&columns, scaling) + axis_bytes(&rows, scaling) + ring
}

fn axis_bytes(task: &AxisTask, scaling: Scaling) -> f64 {
    most_taps(task, scaling) * f64::from(task.count) * WEIGHT_BYTES
}

/// At most so many pixels make one.
fn most_taps(task: &AxisTask, scaling: Scaling) -> f64 {
    let half = match scaling.filter {
        Filter::Nearest | Filter::NearestExact => return 1.0,
        Filter::Bilinear => 1.0,
        Filter::Bicubic => 2.0,
    };
    let scale = f64::from(task.source) / f64::from(task.target);
    let widening = if scaling.antialias { scale.max(1.0) } else { 1.0 };
    2.0 * (half * widening).ceil() + 3.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(data: &[u8], kind: Kind, size: (u32, u32), bytes_per_pixel: usize) -> String {
        let header = Header { kind, width: size.0, height: size.1 };
        Limits::default()
            .check_whole(data, &header, bytes_per_pixel, 0)
            .map_or_else(|fault| fault.found, |()| String::new())
    }

    #[test]
    fn an_image_is_bounded_in_its_full_form() {
        let data = vec![0; 2 << 20];
        assert!(refused(&data, Kind::Gif, (1 << 14, 1 << 14), 8).contains("2147483648 bytes decoded"));
        assert!(refused(&data[..100], Kind::Webp, (1 << 14, 1 << 14), 3).contains("1100 times"));
        assert_eq!(refused(&data, Kind::Webp, (1 << 14, 1 << 14), 4), "");
        assert_eq!(refused(&data[..100], Kind::Gif, (1 << 10, 1 << 10), 4), "");
    }

    #[test]
    fn a_header_that_states_more_than_the_file_holds_is_refused() {
        let png = [&[0; 24][..], &[8, 6], &[0; 100]].concat();
        assert!(refused(&png, Kind::Png, (1 << 10, 1 << 10), 4).contains("in 126 bytes"));
        assert_eq!(refused(&png, Kind::Png, (100, 300), 4), "");
        let bmp = [&[0; 14][..], &40_u32.to_le_bytes(), &[0; 10], &[24, 0], &[0; 100]].concat();
        assert!(refused(&bmp, Kind::Bmp, (8, 8), 3).contains("8 × 8 pixels in 130 bytes"));
        assert_eq!(refused(&bmp, Kind::Bmp, (6, 7), 3), "");
    }

    #[test]
    fn memory_that_no_process_has_is_an_error() {
        assert!(try_memory(1 << 62).is_err());
        assert!(try_memory(65 << 20).is_ok());
    }
}
