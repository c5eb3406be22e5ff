//! What a file's headers say of its pixels, and what is lost where they are decoded to RGB.

use std::io::Cursor;

use image::codecs::bmp::BmpDecoder;
use image::codecs::tiff::TiffDecoder;
use image::{ColorType, ImageDecoder};

use super::exif::png_chunks;
use super::fault::Fault;
use super::header::{Header, Kind, jpeg_segments};
use super::jxl;
use super::mode::{Mode, Stored};
use super::pnm;

/// What an image loses as RGB of 8 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Loss {
    /// Grey of 16 bits.
    Grey16 = 1,
    /// Colours of 16 bits.
    Colour16,
    /// A palette's indices.
    Palette,
    /// Alpha that is not opaque everywhere.
    Alpha,
}

impl Loss {
    /// Its name in Python.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grey16 => "grey16",
            Self::Colour16 => "colour16",
            Self::Palette => "palette",
            Self::Alpha => "alpha",
        }
    }

    /// The loss of that number.
    #[must_use]
    pub fn numbered(number: u8) -> Option<Self> {
        [Self::Grey16, Self::Colour16, Self::Palette, Self::Alpha].into_iter().find(|&loss| loss as u8 == number)
    }

    /// What decoded pixels lose as RGB.
    #[must_use]
    pub fn of(data: &[u8], header: &Header, stored: Stored, pixels: &[u8]) -> Option<Self> {
        match stored {
            _ if header.kind == Kind::Png && data.get(25) == Some(&3) => Some(Self::Palette),
            _ if header.kind == Kind::Pnm
                && stored == Stored::Rgb8
                && pnm::read(data).is_some_and(|found| found.is_wide()) =>
            {
                Some(Self::Colour16)
            }
            Stored::Grey16 | Stored::GreyAlpha16Clipped | Stored::GreyAlpha16 => Some(Self::Grey16),
            Stored::Rgb16 | Stored::Rgba16 => Some(Self::Colour16),
            Stored::GreyAlpha8 => pixels.as_chunks::<2>().0.iter().any(|pixel| pixel[1] != 255).then_some(Self::Alpha),
            Stored::Rgba8 => pixels.as_chunks::<4>().0.iter().any(|pixel| pixel[3] != 255).then_some(Self::Alpha),
            _ => None,
        }
    }
}

/// The mode that holds an image as its file does, from the headers alone.
///
/// # Errors
/// If the headers are damaged, or no mode holds such an image.
pub fn mode(data: &[u8], header: &Header) -> Result<Mode, Fault> {
    match header.kind {
        Kind::Jpeg => jpeg_mode(data),
        Kind::Png => png_mode(data),
        Kind::Webp => Ok(if webp_has_alpha(data) { Mode::Rgba } else { Mode::Rgb }),
        Kind::Gif => Ok(Mode::P),
        Kind::Bmp => bmp_mode(data),
        Kind::Tiff => tiff_mode(data),
        Kind::Pnm => pnm_mode(data),
        Kind::Jxl => jxl_mode(data),
    }
}

/// "a grey PNG image", for people.
#[must_use]
pub fn in_words(data: &[u8], header: &Header) -> String {
    let name = header.kind.name();
    let what = match mode(data, header) {
        Ok(Mode::Rgb) => "an RGB",
        Ok(Mode::L) => "a grey",
        Ok(Mode::La) => "a grey, partly transparent",
        Ok(Mode::Rgba) => "an RGBA",
        Ok(Mode::I16) => "a 16-bit grey",
        Ok(Mode::P) => "a palette",
        Err(_) => "an unusual",
    };
    format!("{what} {name} image")
}

fn no_mode(what: &str, say: &str) -> Fault {
    Fault::new(format!("{what}, which no mode holds unchanged"), format!("say what you need of it: {say}"))
}

fn jpeg_mode(data: &[u8]) -> Result<Mode, Fault> {
    let frame = jpeg_segments(data).find(|(marker, _)| matches!(marker, 0xC0..=0xC2));
    match frame.and_then(|(_, contents)| contents.get(5).copied()) {
        Some(1) => Ok(Mode::L),
        Some(4) => Err(no_mode("a JPEG of four inks (CMYK)", "Decode(mode=\"RGB\")")),
        _ => Ok(Mode::Rgb),
    }
}

fn png_mode(data: &[u8]) -> Result<Mode, Fault> {
    let is_transparent = png_chunks(data).take_while(|(name, _)| name != b"IDAT").any(|(name, _)| name == *b"tRNS");
    match (data.get(25), data.get(24) == Some(&16), is_transparent) {
        (Some(0), true, false) => Ok(Mode::I16),
        (Some(0 | 4), true, _) => Err(no_mode("a PNG of 16-bit grey with alpha", "Decode(mode=\"I16\") or \"LA\"")),
        (Some(2 | 6), true, _) => {
            Err(no_mode("a PNG of 16-bit colours", "Decode(mode=\"RGB\") keeps the upper 8 bits"))
        }
        (Some(0), _, false) => Ok(Mode::L),
        (Some(0 | 4), ..) => Ok(Mode::La),
        (Some(2), _, false) => Ok(Mode::Rgb),
        (Some(2 | 6), ..) => Ok(Mode::Rgba),
        (Some(3), ..) => Ok(Mode::P),
        _ => Err(Fault::damaged("a PNG header that states no known kind of pixels")),
    }
}

fn webp_has_alpha(data: &[u8]) -> bool {
    match data.get(12..16) {
        Some(b"VP8X") => data.get(20).is_some_and(|flags| flags & 0x10 != 0),
        Some(b"VP8L") => data.get(24).is_some_and(|byte| byte & 0x10 != 0),
        _ => false,
    }
}

/// Whether a BMP's pixels are indices into a palette: those of up to 8 bits.
#[must_use]
pub fn bmp_has_palette(data: &[u8]) -> bool {
    let at = if data.get(14..18) == Some(&12_u32.to_le_bytes()) { 24 } else { 28 };
    data.get(at..at + 2).is_some_and(|bits| matches!(bits, [1..=8, 0]))
}

fn tiff_mode(data: &[u8]) -> Result<Mode, Fault> {
    let decoder = TiffDecoder::new(Cursor::new(data)).map_err(|error| {
        Fault::damaged(format!("a TIFF file that is damaged, or of a kind that is not read ({error})"))
    })?;
    match decoder.color_type() {
        ColorType::L8 => Ok(Mode::L),
        ColorType::L16 => Ok(Mode::I16),
        ColorType::La8 => Ok(Mode::La),
        ColorType::Rgb8 => Ok(Mode::Rgb),
        ColorType::Rgba8 => Ok(Mode::Rgba),
        _ => Err(no_mode("a TIFF of 16-bit colours or alpha", "Decode(mode=\"RGB\") keeps the upper 8 bits")),
    }
}

fn pnm_mode(data: &[u8]) -> Result<Mode, Fault> {
    let found = pnm::read(data).ok_or_else(|| Fault::damaged("a damaged PNM header"))?;
    match found.stored() {
        Stored::Grey8 => Ok(Mode::L),
        Stored::Grey16 => Ok(Mode::I16),
        _ if found.is_wide() => Err(no_mode("a PPM of 16-bit colours", "Decode(mode=\"RGB\") scales them to 8 bits")),
        _ => Ok(Mode::Rgb),
    }
}

fn jxl_mode(data: &[u8]) -> Result<Mode, Fault> {
    match jxl::stored(data)? {
        Stored::Grey8 => Ok(Mode::L),
        Stored::Grey16 => Ok(Mode::I16),
        Stored::GreyAlpha8 => Ok(Mode::La),
        Stored::Rgb8 => Ok(Mode::Rgb),
        Stored::Rgba8 => Ok(Mode::Rgba),
        _ => Err(no_mode("a JPEG XL of 16-bit colours or alpha", "Decode(mode=\"RGB\") keeps the upper 8 bits")),
    }
}

fn bmp_mode(data: &[u8]) -> Result<Mode, Fault> {
    if bmp_has_palette(data) {
        return Ok(Mode::P);
    }
    let decoder =
        BmpDecoder::new(Cursor::new(data)).map_err(|error| Fault::damaged(format!("a damaged BMP file ({error})")))?;
    Ok(if decoder.color_type() == ColorType::Rgba8 { Mode::Rgba } else { Mode::Rgb })
}
