//! Encoded bytes to rows of pixels, by the decoder that fits the content.
//!
//! Baseline JPEG is streamed; everything else is decoded whole into a buffer that the thread reuses, and converted row
//! by row. Nothing is allocated before the header's size has passed the limit.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use image::codecs::{bmp::BmpDecoder, gif::GifDecoder, png::PngDecoder, webp::WebPDecoder};
use image::{ColorType, ImageDecoder, ImageError, Limits as Allocations};
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use super::batch::panicked;
use super::contents::Loss;
use super::fault::Fault;
use super::header::{Header, Kind};
use super::indices::indices;
use super::limits::{Limits, zeroed};
use super::mode::Mode;
use super::pixels::{Stored, convert};
use crate::core::geometry::Rect;
use crate::jpeg::{self, EntryPoints, PlaneRow};

/// Takes consecutive rows of a region: the number of the first, counted in the region, and their pixels' bytes.
pub type Sink<'a> = dyn FnMut(u32, &[u8]) + 'a;

/// Buffers larger than this are given back after each image.
pub const KEEP_BYTES: usize = 64 << 20;

/// Images of so many pixels, which no decoder can stream, take long enough (a tenth of a second and more) that a stop does not wait for them.
const LONG_PIXELS: u64 = 8 << 20;

/// Between two looks whether a long image is still wanted.
const LOOK: Duration = Duration::from_millis(50);

/// Images by how they were decoded: by our baseline JPEG decoder from the start of the scan, by it from entry points,
/// by the decoder for other JPEGs, by those for other formats.
pub type Counts = [u64; 4];

/// A thread's decoding buffers.
#[derive(Default)]
pub struct Decoders {
    pub(super) counts: Counts,
    pub(super) allow_truncated: bool,
    pub(super) limits: Limits,
    pub(super) stopped: Option<Arc<AtomicBool>>,
    /// Whether what RGB loses is looked for.
    pub(super) is_watching: bool,
    pub(super) loss: Option<Loss>,
    jpeg: jpeg::Decoder,
    whole: Vec<u8>,
    row: Vec<u8>,
}

impl Decoders {
    /// Hands the rows of `region` of the encoded image to `sink`, in order, as pixels of `mode`.
    ///
    /// # Errors
    /// If the bytes are damaged, cut short, of a kind that cannot be decoded, or lack the palette that `mode` asks for.
    pub fn rows(
        &mut self,
        data: &[u8],
        header: &Header,
        entry_points: Option<&[u8]>,
        region: Rect,
        mode: Mode,
        sink: &mut Sink<'_>,
    ) -> Result<(), Fault> {
        if header.kind == Kind::Jpeg && mode != Mode::P {
            let parsed = jpeg::Header::parse(data).map_err(damaged_jpeg)?;
            if parsed.is_supported() {
                return self.jpeg_rows(data, &parsed, entry_points, region, mode, sink);
            }
        }
        let result = self.whole_rows(data, header, region, mode, sink);
        if self.whole.capacity() > KEEP_BYTES {
            self.whole = Vec::new();
        }
        result
    }

    /// As [`Self::rows`], of a JPEG that our decoder supports. The luma of a grey one is taken as it is.
    fn jpeg_rows(
        &mut self,
        data: &[u8],
        header: &jpeg::Header,
        entry_points: Option<&[u8]>,
        region: Rect,
        mode: Mode,
        sink: &mut Sink<'_>,
    ) -> Result<(), Fault> {
        if mode == Mode::L && header.component_count == 1 {
            let (top, left) = (region.y as usize, region.x as usize);
            return self.planes(data, header, entry_points, 1, region, &mut |row: PlaneRow<'_>| {
                if (top..top + region.height as usize).contains(&row.y) {
                    sink((row.y - top) as u32, &row.samples[left - row.first_x..][..region.width as usize]);
                }
            });
        }
        let found = entry_points.and_then(|bytes| EntryPoints::from_bytes(bytes).ok());
        let options = self.options(found.as_ref());
        if mode == Mode::Rgb {
            return self.jpeg.decode(data, header, region, &options, sink).map_err(damaged_jpeg);
        }
        let converted = &mut self.row;
        let mut convert = |first: u32, rows: &[u8]| {
            converted.resize(rows.len() / 3 * mode.bytes(), 0);
            convert(Stored::Rgb8, mode, rows, converted);
            sink(first, converted);
        };
        self.jpeg.decode(data, header, region, &options, &mut convert).map_err(damaged_jpeg)
    }

    /// As [`Self::rows`], of what no decoder can stream.
    fn whole_rows(
        &mut self,
        data: &[u8],
        header: &Header,
        region: Rect,
        mode: Mode,
        sink: &mut Sink<'_>,
    ) -> Result<(), Fault> {
        let is_jpeg = header.kind == Kind::Jpeg;
        self.counts[if is_jpeg { 2 } else { 3 }] += 1;
        let decode = match mode {
            Mode::P => indices,
            _ if is_jpeg => other_jpeg,
            _ => other,
        };
        let pixels = u64::from(header.width) * u64::from(header.height);
        let stored = match &self.stopped {
            Some(stopped) if pixels >= LONG_PIXELS => {
                apart(decode, data, *header, self.limits, std::mem::take(&mut self.whole), stopped).and_then(
                    |(stored, whole)| {
                        self.whole = whole;
                        stored
                    },
                )
            }
            _ => decode(data, header, &self.limits, &mut self.whole),
        }?;
        if self.is_watching {
            self.loss = Loss::of(data, header, stored, &self.whole);
        }
        let line = header.width as usize * stored.size();
        convert_rows(&self.whole, line, stored, region, mode, &mut self.row, sink);
        Ok(())
    }

    /// Hands the rows of `region` of a JPEG that our decoder supports to `sink`, red, green and blue each by itself.
    ///
    /// # Errors
    /// If the bytes are damaged or cut short.
    pub fn colours(
        &mut self,
        data: &[u8],
        header: &jpeg::Header,
        entry_points: Option<&[u8]>,
        region: Rect,
        sink: &mut dyn FnMut([&[u8]; 3]),
    ) -> Result<(), Fault> {
        let found = entry_points.and_then(|bytes| EntryPoints::from_bytes(bytes).ok());
        let options = self.options(found.as_ref());
        self.jpeg.decode_colours(data, header, region, &options, sink).map_err(damaged_jpeg)
    }

    /// Hands the rows of the components of a JPEG that our decoder supports to `sink`; see [`jpeg::Decoder::decode_planes`].
    ///
    /// # Errors
    /// If the bytes are damaged or cut short.
    pub fn planes(
        &mut self,
        data: &[u8],
        header: &jpeg::Header,
        entry_points: Option<&[u8]>,
        scale: u8,
        region: Rect,
        sink: &mut dyn FnMut(PlaneRow<'_>),
    ) -> Result<(), Fault> {
        let found = entry_points.and_then(|bytes| EntryPoints::from_bytes(bytes).ok());
        let options = jpeg::DecodeOptions { scale, ..self.options(found.as_ref()) };
        self.jpeg.decode_planes(data, header, region, &options, sink).map_err(damaged_jpeg)
    }

    /// How our decoder is called; counts the call.
    fn options<'a>(&mut self, entry_points: Option<&'a EntryPoints>) -> jpeg::DecodeOptions<'a> {
        self.counts[usize::from(entry_points.is_some())] += 1;
        let allow_truncated = self.allow_truncated;
        let max_bytes = self.limits.image_bytes;
        jpeg::DecodeOptions { max_pixels: u64::MAX, max_bytes, entry_points, allow_truncated, ..Default::default() }
    }
}

/// Decodes a whole image into a buffer.
type Decode = fn(&[u8], &Header, &Limits, &mut Vec<u8>) -> Result<Stored, Fault>;

/// Decodes in a thread of its own, which is left behind once `stopped` is set: what it found, and the buffer.
fn apart(
    decode: Decode,
    data: &[u8],
    header: Header,
    limits: Limits,
    mut whole: Vec<u8>,
    stopped: &AtomicBool,
) -> Result<(Result<Stored, Fault>, Vec<u8>), Fault> {
    let data = data.to_vec();
    let (sender, receiver) = sync_channel(1);
    let work = move || {
        let found = catch_unwind(AssertUnwindSafe(|| decode(&data, &header, &limits, &mut whole)));
        drop(sender.send((found.unwrap_or_else(|panic| Err(panicked(&*panic))), whole)));
    };
    thread::Builder::new().name("penstock-decode".into()).spawn(work).map_err(|error| {
        Fault::new(
            format!("a long image, for which no thread can be made ({error})"),
            "let the process have more threads",
        )
    })?;
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(found) => return Ok(found),
            Err(RecvTimeoutError::Timeout) if !stopped.load(Ordering::Relaxed) => {}
            Err(_) => return Err(Fault::damaged("an image that nobody waits for")),
        }
    }
}

/// Hands the rows of `region` of a whole image, `line` bytes a row, to `sink`, as pixels of `mode`.
pub fn convert_rows(
    whole: &[u8],
    line: usize,
    stored: Stored,
    region: Rect,
    mode: Mode,
    row: &mut Vec<u8>,
    sink: &mut Sink<'_>,
) {
    let (first, bytes) = (region.x as usize * stored.size(), region.width as usize * stored.size());
    let is_same = stored == mode.stored();
    if is_same && bytes == line {
        let start = region.y as usize * line;
        sink(0, &whole[start..start + region.height as usize * line]);
        return;
    }
    row.resize(region.width as usize * mode.bytes(), 0);
    for index in 0..region.height {
        let part = &whole[(region.y + index) as usize * line + first..][..bytes];
        if is_same {
            sink(index, part);
        } else {
            convert(stored, mode, part, row);
            sink(index, row);
        }
    }
}

fn damaged_jpeg(error: impl std::fmt::Display) -> Fault {
    Fault::damaged(format!("a damaged JPEG ({error})"))
}

/// Progressive JPEGs, and those of four components.
fn other_jpeg(data: &[u8], header: &Header, limits: &Limits, whole: &mut Vec<u8>) -> Result<Stored, Fault> {
    let options = DecoderOptions::default()
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX))
        .set_strict_mode(true);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(data), options);
    decoder.decode_headers().map_err(damaged_jpeg)?;
    let (space, stored) = match decoder.input_colorspace() {
        Some(ColorSpace::CMYK) => (ColorSpace::CMYK, Stored::Cmyk),
        Some(ColorSpace::YCCK) => (ColorSpace::YCCK, Stored::Ycck),
        Some(ColorSpace::Luma) => (ColorSpace::Luma, Stored::Grey8),
        _ => (ColorSpace::RGB, Stored::Rgb8),
    };
    decoder.set_options(options.jpeg_set_out_colorspace(space));
    if decoder.dimensions() != Some((header.width as usize, header.height as usize)) {
        return Err(Fault::damaged("a JPEG with contradictory headers"));
    }
    let pixels = header.width as usize * header.height as usize;
    // Progressive files: every coefficient has two bytes.
    limits.check_whole(data, header, stored.size(), (2 * pixels * stored.size()) as u64)?;
    // As in `read`: of a damaged file some rows may be left out.
    whole.clear();
    zeroed(whole, pixels * stored.size())?;
    decoder.decode_into(whole).map_err(damaged_jpeg)?;
    Ok(stored)
}

fn other(data: &[u8], header: &Header, limits: &Limits, whole: &mut Vec<u8>) -> Result<Stored, Fault> {
    let source = Cursor::new(data);
    let damaged = |error: ImageError| damaged_other(header, &error);
    let color = match header.kind {
        Kind::Png => {
            let decoder = PngDecoder::with_limits(source, png_limits(data, header)).map_err(damaged)?;
            read(decoder, data, header, limits, whole)
        }
        Kind::Webp => {
            check_riff(data)?;
            read(WebPDecoder::new(source).map_err(damaged)?, data, header, limits, whole)
        }
        Kind::Bmp => read(BmpDecoder::new(source).map_err(damaged)?, data, header, limits, whole),
        _ => {
            let mut decoder = GifDecoder::new(source).map_err(damaged)?;
            decoder.set_limits(gif_limits(&decoder)).map_err(damaged)?;
            read(decoder, data, header, limits, whole)
        }
    }?;
    // The colour type that a PNG's header states: 0 is grey.
    let is_grey_png = header.kind == Kind::Png && data.get(25) == Some(&0);
    match color {
        Some(ColorType::L8) => Ok(Stored::Grey8),
        Some(ColorType::La8) => Ok(Stored::GreyAlpha8),
        Some(ColorType::Rgb8) => Ok(Stored::Rgb8),
        Some(ColorType::Rgba8) => Ok(Stored::Rgba8),
        Some(ColorType::L16) => Ok(Stored::Grey16),
        Some(ColorType::La16) if is_grey_png => Ok(Stored::GreyAlpha16Clipped),
        Some(ColorType::La16) => Ok(Stored::GreyAlpha16),
        Some(ColorType::Rgb16) => Ok(Stored::Rgb16),
        Some(ColorType::Rgba16) => Ok(Stored::Rgba16),
        Some(other) => Err(Fault::damaged(format!("a {} file of unknown pixels ({other:?})", header.kind.name()))),
        None => Err(Fault::damaged(format!("a {} file with contradictory headers", header.kind.name()))),
    }
}

/// A lossy WebP that lacks its last bytes decodes to other pixels; libwebp, too, wants all that the file says it has.
fn check_riff(data: &[u8]) -> Result<(), Fault> {
    let size = data.get(4..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let stated = u64::from(size) + 8;
    if stated > data.len() as u64 {
        return Err(Fault::damaged(format!("a WebP file cut short ({} bytes of {stated})", data.len())));
    }
    Ok(())
}

/// What a PNG's decoder may allocate: a compressed colour profile, which nothing uses, may claim any size; chunks are held as they lie in the
/// file, and a row of pixels.
pub(super) fn png_bytes(data: &[u8], header: &Header) -> u64 {
    (data.len() as u64 + u64::from(header.width) * 8) * 4 + (64 << 20)
}

fn png_limits(data: &[u8], header: &Header) -> Allocations {
    let mut limits = Allocations::no_limits();
    limits.max_alloc = Some(png_bytes(data, header));
    limits
}

/// The first frame of a GIF has a size of its own, which may claim anything; it need not be much larger than the image.
fn gif_limits(decoder: &impl ImageDecoder) -> Allocations {
    let mut limits = Allocations::no_limits();
    limits.max_alloc = Some(decoder.total_bytes().saturating_mul(4).saturating_add(1 << 20));
    limits
}

/// Decodes into `whole`; None if the decoder sees another size than the header stated.
fn read(
    decoder: impl ImageDecoder,
    data: &[u8],
    header: &Header,
    limits: &Limits,
    whole: &mut Vec<u8>,
) -> Result<Option<ColorType>, Fault> {
    if decoder.dimensions() != (header.width, header.height) {
        return Ok(None);
    }
    let color = decoder.color_type();
    // GIF: a frame; WebP: a canvas with alpha.
    let besides =
        if matches!(header.kind, Kind::Gif | Kind::Webp) { decoder.total_bytes().saturating_mul(2) } else { 0 };
    limits.check_whole(data, header, usize::from(color.bytes_per_pixel()), besides)?;
    if header.kind != Kind::Png {
        // Other decoders leave out what a damaged file lacks: pixels of the image before must not stand there.
        whole.clear();
    }
    zeroed(whole, usize::try_from(decoder.total_bytes()).unwrap_or(usize::MAX))?;
    decoder.read_image(whole).map_err(|error| damaged_other(header, &error))?;
    Ok(Some(color))
}

fn damaged_other(header: &Header, error: &ImageError) -> Fault {
    Fault::damaged(format!("a damaged {} file ({error})", header.kind.name()))
}
