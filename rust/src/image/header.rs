//! What a file's first bytes say: its kind and size, read without any decoder and without any allocation.

use super::fault::Fault;
use super::jxl;
use super::pnm;
use super::tiff::Tiff;

/// A kind of file, identified by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ITU-T T.81.
    Jpeg,
    /// Portable Network Graphics.
    Png,
    /// Lossy or lossless WebP.
    Webp,
    /// Windows bitmap.
    Bmp,
    /// GIF, of which the first frame is taken.
    Gif,
    /// TIFF, of which the first page is taken.
    Tiff,
    /// PGM and PPM, the binary ones.
    Pnm,
    /// JPEG XL, of which the first frame is taken.
    Jxl,
}

impl Kind {
    /// The format's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Jpeg => "JPEG",
            Self::Png => "PNG",
            Self::Webp => "WebP",
            Self::Bmp => "BMP",
            Self::Gif => "GIF",
            Self::Tiff => "TIFF",
            Self::Pnm => "PNM",
            Self::Jxl => "JPEG XL",
        }
    }
}

/// A file's kind, and its image's size as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Of the file.
    pub kind: Kind,
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// Names of other files that users pass to image decoders, by their first bytes.
const OTHERS: [(&[u8], &str); 12] = [
    (b"II+\0", "a BigTIFF file"),
    (b"MM\0+", "a BigTIFF file"),
    (b"\0\0\0\x0cjP  ", "a JPEG 2000 file"),
    (b"\xff\x4f\xff\x51", "a JPEG 2000 codestream"),
    (b"\0\0\x01\0", "an icon"),
    (b"\x76\x2f\x31\x01", "an OpenEXR file"),
    (b"%PDF", "a PDF file"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"<svg", "an SVG drawing"),
    (b"<", "markup (an error page?)"),
    (b"version https://git-lfs", "a Git LFS pointer; fetch the data with `git lfs pull`"),
];

/// The kind of a file, from its content.
///
/// # Errors
/// If the bytes do not begin like a supported image; says what they look like.
pub fn sniff(data: &[u8]) -> Result<Kind, Fault> {
    let kind = match data {
        [0xFF, 0xD8, 0xFF, ..] => Kind::Jpeg,
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => Kind::Png,
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Kind::Webp,
        [b'B', b'M', ..] => Kind::Bmp,
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Kind::Gif,
        // The first 128 bytes of a DICOM file are free, and many hold the beginning of a TIFF.
        [b'I', b'I', b'*', 0, ..] | [b'M', b'M', 0, b'*', ..] if !is_dicom(data) => Kind::Tiff,
        [b'P', b'5' | b'6', b' ' | b'\t' | b'\n' | b'\r' | b'#', ..] => Kind::Pnm,
        [0xFF, 0x0A, ..] | [0, 0, 0, 12, b'J', b'X', b'L', b' ', ..] => Kind::Jxl,
        _ => return Err(unknown(data)),
    };
    Ok(kind)
}

fn is_dicom(data: &[u8]) -> bool {
    data.get(128..132) == Some(b"DICM")
}

fn unknown(data: &[u8]) -> Fault {
    if data.is_empty() {
        return Fault::damaged("an empty file (0 bytes)");
    }
    let other = OTHERS.iter().find(|(start, _)| data.starts_with(start)).map(|(_, name)| *name);
    let other = other.or((data.get(4..8) == Some(b"ftyp")).then_some("an HEIC, AVIF or MP4 file"));
    let other = other.or(is_dicom(data).then_some("a DICOM file"));
    let start: Vec<String> = data.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let seems = other.map_or_else(|| format!("{} bytes", data.len()), |name| format!("it looks like {name}"));
    Fault::new(
        format!("not an image: it begins with {} ({seems})", start.join(" ")),
        "give JPEG, PNG, WebP, BMP, GIF, TIFF, PGM, PPM or JPEG XL data (convert others first)",
    )
}

/// A file's kind and size; the size is at most `pixels_limit` pixels.
///
/// # Errors
/// If the bytes are not an image, end within the header, or state a size of 0 or above the limit.
pub fn read(data: &[u8], pixels_limit: u64) -> Result<Header, Fault> {
    let kind = sniff(data)?;
    let size = match kind {
        Kind::Jpeg => jpeg_size(data)?,
        Kind::Png => png_size(data),
        Kind::Webp => webp_size(data),
        Kind::Bmp => bmp_size(data),
        Kind::Gif => gif_size(data),
        Kind::Tiff => tiff_size(data),
        Kind::Pnm => pnm::read(data).map(|found| (found.width, found.height)),
        Kind::Jxl => jxl::size(data),
    };
    let name = kind.name();
    let (width, height) = size
        .ok_or_else(|| Fault::damaged(format!("a {name} header cut short or damaged ({} bytes in all)", data.len())))?;
    if width == 0 || height == 0 {
        return Err(Fault::damaged(format!("a {name} header that states {width} × {height} pixels")));
    }
    let pixels = u64::from(width) * u64::from(height);
    if pixels > pixels_limit {
        return Err(Fault::new(
            format!(
                "a {name} header that states {width} × {height} = {pixels} pixels, above the limit of {pixels_limit}"
            ),
            "raise Limits(pixels=…) if such images are expected",
        ));
    }
    Ok(Header { kind, width, height })
}

fn big_u16(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(u16::from_be_bytes(*data.get(at..)?.first_chunk()?)))
}

fn big_u32(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*data.get(at..)?.first_chunk()?))
}

fn little_u16(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(u16::from_le_bytes(*data.get(at..)?.first_chunk()?)))
}

fn little_u32(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*data.get(at..)?.first_chunk()?))
}

fn little_u24(data: &[u8], at: usize) -> Option<u32> {
    let bytes: &[u8; 3] = data.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]))
}

/// The segments of a JPEG up to the first scan: (marker, contents).
pub fn jpeg_segments(data: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut at = 2;
    std::iter::from_fn(move || {
        while *data.get(at)? != 0xFF {
            at += 1;
        }
        while *data.get(at)? == 0xFF {
            at += 1;
        }
        let marker = data[at];
        at += 1;
        if matches!(marker, 0x00 | 0x01 | 0xD0..=0xD8) {
            return Some((marker, &data[..0]));
        }
        if matches!(marker, 0xD9 | 0xDA) {
            return None;
        }
        let length = big_u16(data, at)? as usize;
        let contents = data.get(at + 2..at + length.max(2))?;
        at += length.max(2);
        Some((marker, contents))
    })
}

fn jpeg_size(data: &[u8]) -> Result<Option<(u32, u32)>, Fault> {
    let frame = jpeg_segments(data)
        .find(|(marker, _)| matches!(marker, 0xF7 | 0xC0..=0xCF if !matches!(marker, 0xC4 | 0xC8 | 0xCC)));
    let Some((marker, contents)) = frame else { return Ok(None) };
    if !matches!(marker, 0xC0..=0xC2) {
        let process = match marker {
            0xF7 => "a near-lossless (JPEG-LS)",
            0xC3 => "a lossless",
            0xC9..=0xCF => "an arithmetic-coded",
            _ => "a hierarchical",
        };
        return Err(Fault::new(
            format!("{process} JPEG (frame marker 0xff{marker:02x})"),
            "store it as a baseline or progressive JPEG",
        ));
    }
    if contents.first().is_some_and(|&bits| bits != 8) {
        return Err(Fault::new(format!("a JPEG of {} bits a sample", contents[0]), "store it with 8 bits"));
    }
    Ok(big_u16(contents, 3).zip(big_u16(contents, 1)))
}

fn png_size(data: &[u8]) -> Option<(u32, u32)> {
    (data.get(12..16)? == b"IHDR").then_some(())?;
    Some((big_u32(data, 16)?, big_u32(data, 20)?))
}

fn gif_size(data: &[u8]) -> Option<(u32, u32)> {
    Some((little_u16(data, 6)?, little_u16(data, 8)?))
}

fn tiff_size(data: &[u8]) -> Option<(u32, u32)> {
    let tiff = Tiff::new(data)?;
    Some((tiff.number(0x0100)?, tiff.number(0x0101)?))
}

fn bmp_size(data: &[u8]) -> Option<(u32, u32)> {
    if little_u32(data, 14)? == 12 {
        return Some((little_u16(data, 18)?, little_u16(data, 20)?));
    }
    let (width, height) = (little_u32(data, 18)? as i32, little_u32(data, 22)? as i32);
    Some((u32::try_from(width).ok()?, height.unsigned_abs()))
}

fn webp_size(data: &[u8]) -> Option<(u32, u32)> {
    match data.get(12..16)? {
        b"VP8X" => Some((little_u24(data, 24)? + 1, little_u24(data, 27)? + 1)),
        b"VP8L" => {
            let bits = (*data.get(20)? == 0x2F).then(|| little_u32(data, 21))??;
            Some(((bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1))
        }
        b"VP8 " => {
            (data.get(23..26)? == [0x9D, 0x01, 0x2A]).then_some(())?;
            Some((little_u16(data, 26)? & 0x3FFF, little_u16(data, 28)? & 0x3FFF))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STARTS: [&[u8]; 9] = [
        b"\xff\xd8\xff",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"RIFF\0\0\0\0WEBPVP8X",
        b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f",
        b"RIFF\0\0\0\0WEBPVP8 ",
        b"BM",
        b"GIF89a",
        b"II*\0\x08\0\0\0\x02\0\0\x01\x03\0",
        b"P5 ",
    ];

    proptest! {
        #[test]
        fn any_bytes_are_a_header_within_the_limit_or_a_fault(
            start in 0..STARTS.len(),
            rest in prop::collection::vec(any::<u8>(), 0..60),
            limit in 1_u64..1 << 32,
        ) {
            let data = [STARTS[start], &rest].concat();
            if let Ok(header) = read(&data, limit) {
                prop_assert!(header.width > 0 && header.height > 0);
                prop_assert!(u64::from(header.width) * u64::from(header.height) <= limit);
            }
            let orientation = crate::image::exif::orientation(&data, sniff(&data).unwrap_or(Kind::Jpeg));
            prop_assert!((1..=8).contains(&orientation));
        }
    }

    #[test]
    fn what_it_looks_like_is_said() {
        assert!(sniff(b"").unwrap_err().found.contains("empty"));
        assert!(sniff(b"%PDF-1.7").unwrap_err().found.contains("a PDF file"));
        assert!(sniff(b"hello").unwrap_err().found.contains("68 65 6c 6c 6f"));
    }
}
