//! Whole images of what no decoder streams: other JPEGs than baseline ones, PNG, WebP, BMP, GIF, TIFF, PGM, PPM and JPEG XL.

use std::io::Cursor;

use image::codecs::{bmp::BmpDecoder, gif::GifDecoder, png::PngDecoder, tiff::TiffDecoder, webp::WebPDecoder};
use image::{ColorType, ImageDecoder, ImageError, Limits as Allocations};
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use super::exif::png_chunks;
use super::fault::Fault;
use super::header::{Header, Kind};
use super::jxl_pixels;
use super::limits::{Limits, png_bytes, zeroed};
use super::mode::Stored;
use super::pnm;

/// Progressive JPEGs, and those of four components.
pub(super) fn other_jpeg(data: &[u8], header: &Header, limits: &Limits, whole: &mut Vec<u8>) -> Result<Stored, Fault> {
    let options = DecoderOptions::default()
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX))
        .set_strict_mode(true);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(data), options);
    decoder.decode_headers().map_err(Fault::damaged_jpeg)?;
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
    decoder.decode_into(whole).map_err(Fault::damaged_jpeg)?;
    Ok(stored)
}

/// PNG, WebP, BMP, GIF, TIFF, PGM, PPM and JPEG XL.
pub(super) fn other(data: &[u8], header: &Header, limits: &Limits, whole: &mut Vec<u8>) -> Result<Stored, Fault> {
    let source = Cursor::new(data);
    let damaged = |error: ImageError| damaged_other(header, &error);
    let color = match header.kind {
        Kind::Png => {
            check_palette(data)?;
            let decoder = PngDecoder::with_limits(source, png_limits(data, header)).map_err(damaged)?;
            read(decoder, data, header, limits, whole)
        }
        Kind::Webp => {
            check_riff(data)?;
            read(WebPDecoder::new(source).map_err(damaged)?, data, header, limits, whole)
        }
        Kind::Pnm => {
            let found = pnm::read(data).ok_or_else(|| Fault::damaged("a damaged PNM header"))?;
            let (stored, pixels) = (found.stored(), found.pixels(data)?);
            limits.check_whole(data, header, stored.size(), 0)?;
            zeroed(whole, header.width as usize * header.height as usize * stored.size())?;
            found.fill(pixels, whole);
            return Ok(stored);
        }
        Kind::Jxl => return jxl_pixels::read(data, header, limits, whole),
        Kind::Tiff => {
            let mut decoder = TiffDecoder::new(source).map_err(damaged)?;
            decoder.set_limits(several_times(&decoder)).map_err(damaged)?;
            read(decoder, data, header, limits, whole)
        }
        Kind::Bmp => read(BmpDecoder::new(source).map_err(damaged)?, data, header, limits, whole),
        _ => {
            let mut decoder = GifDecoder::new(source).map_err(damaged)?;
            decoder.set_limits(several_times(&decoder)).map_err(damaged)?;
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

/// The decoder panics where the last colour of a palette is cut.
fn check_palette(data: &[u8]) -> Result<(), Fault> {
    match png_chunks(data).find(|chunk| chunk.0 == *b"PLTE") {
        Some((_, palette)) if !palette.len().is_multiple_of(3) => {
            Err(Fault::damaged(format!("a damaged PNG file (a palette of {} bytes)", palette.len())))
        }
        _ => Ok(()),
    }
}

fn png_limits(data: &[u8], header: &Header) -> Allocations {
    let mut limits = Allocations::no_limits();
    limits.max_alloc = Some(png_bytes(data, header));
    limits
}

/// The first frame of a GIF and the strips of a TIFF have sizes of their own, which may claim anything; they need not be much larger than the image.
fn several_times(decoder: &impl ImageDecoder) -> Allocations {
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
    if header.kind == Kind::Tiff && matches!(error, ImageError::Unsupported(_)) {
        return Fault::new(
            format!("a TIFF file of a kind that is not read ({error})"),
            "convert it to grey, RGB or RGBA of 8 or 16 bits",
        );
    }
    Fault::damaged(format!("a damaged {} file ({error})", header.kind.name()))
}
