//! Stored pixels to RGB8, as Pillow's `convert("RGB")` does it: alpha is dropped, never blended.

/// How the pixels of a decoded image are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// One byte.
    Grey8,
    /// Grey and alpha.
    GreyAlpha8,
    /// Three bytes.
    Rgb8,
    /// Red, green, blue and alpha.
    Rgba8,
    /// 16 bits that stand for themselves: values above 255 become 255 (Pillow's mode "I;16").
    Grey16,
    /// As `Grey16`, with 16 bits of alpha.
    GreyAlpha16Clipped,
    /// Grey and alpha of 16 bits; the upper bytes count.
    GreyAlpha16,
    /// The upper bytes count.
    Rgb16,
    /// The upper bytes count.
    Rgba16,
    /// Adobe's inverted cyan, magenta, yellow and black.
    Cmyk,
    /// As `Cmyk`, with the first three as luma and chroma.
    Ycck,
}

impl Stored {
    /// Bytes of one pixel.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Grey8 => 1,
            Self::GreyAlpha8 | Self::Grey16 => 2,
            Self::Rgb8 => 3,
            Self::Rgba8 | Self::GreyAlpha16Clipped | Self::GreyAlpha16 | Self::Cmyk | Self::Ycck => 4,
            Self::Rgb16 => 6,
            Self::Rgba16 => 8,
        }
    }
}

/// Converts whole pixels from `stored` to RGB8; both hold the same number of pixels.
pub fn to_rgb(stored: Stored, from: &[u8], to: &mut [u8]) {
    match stored {
        Stored::Rgb8 => to.copy_from_slice(from),
        Stored::Grey8 => convert(from, to, |[grey]| [grey; 3]),
        Stored::GreyAlpha8 => convert(from, to, |[grey, _]| [grey; 3]),
        Stored::Rgba8 => convert(from, to, |[r, g, b, _]| [r, g, b]),
        Stored::Grey16 => convert(from, to, |[a, b]| [clipped([a, b]); 3]),
        Stored::GreyAlpha16Clipped => convert(from, to, |[a, b, _, _]| [clipped([a, b]); 3]),
        Stored::GreyAlpha16 => convert(from, to, |[a, b, _, _]| [upper([a, b]); 3]),
        Stored::Rgb16 => {
            convert(from, to, |p: [u8; 6]| [upper([p[0], p[1]]), upper([p[2], p[3]]), upper([p[4], p[5]])])
        }
        Stored::Rgba16 => {
            convert(from, to, |p: [u8; 8]| [upper([p[0], p[1]]), upper([p[2], p[3]]), upper([p[4], p[5]])])
        }
        Stored::Cmyk => convert(from, to, |[c, m, y, k]| inked([c, m, y], k)),
        Stored::Ycck => convert(from, to, |[y, b, r, k]| inked(ycc_to_cmy(y, b, r), k)),
    }
}

#[inline(always)]
fn convert<const SIZE: usize>(from: &[u8], to: &mut [u8], pixel: impl Fn([u8; SIZE]) -> [u8; 3]) {
    for (from, to) in from.as_chunks::<SIZE>().0.iter().zip(to.as_chunks_mut::<3>().0) {
        *to = pixel(*from);
    }
}

fn clipped(value: [u8; 2]) -> u8 {
    u16::from_ne_bytes(value).min(255) as u8
}

fn upper(value: [u8; 2]) -> u8 {
    (u16::from_ne_bytes(value) >> 8) as u8
}

/// Pillow's `cmyk2rgb` after its inversion: what the file calls ink is what is left of the light.
fn inked(light: [u8; 3], key: u8) -> [u8; 3] {
    light.map(|light| {
        let product = u32::from(255 - light) * u32::from(key) + 128;
        key - (((product >> 8) + product) >> 8) as u8
    })
}

/// libjpeg's `ycck_cmyk_convert`: the complement of the RGB that the luma and chroma stand for.
fn ycc_to_cmy(y: u8, blue: u8, red: u8) -> [u8; 3] {
    let (y, blue, red) = (i32::from(y), i32::from(blue) - 128, i32::from(red) - 128);
    let rounded = |value: i32| (value + (1 << 15)) >> 16;
    let r = y + rounded(91_881 * red);
    let g = y + ((-22_554 * blue - 46_802 * red + (1 << 15)) >> 16);
    let b = y + rounded(116_130 * blue);
    [r, g, b].map(|value| (255 - value).clamp(0, 255) as u8)
}
