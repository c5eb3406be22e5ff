//! Stored pixels to those of a mode, as Pillow's `convert` does it: alpha is dropped, never blended.

use super::mode::{Mode, Stored};

/// Converts whole pixels from `stored` to `mode`; both hold the same number of pixels.
pub fn convert(stored: Stored, mode: Mode, from: &[u8], to: &mut [u8]) {
    match mode {
        _ if stored == mode.stored() => to.copy_from_slice(from),
        Mode::Rgb => each(stored, from, to, |rgb, _| rgb),
        Mode::L | Mode::P => each(stored, from, to, |rgb, _| [luma(rgb)]),
        Mode::La => each(stored, from, to, |rgb, alpha| [luma(rgb), alpha]),
        Mode::Rgba => each(stored, from, to, |[r, g, b], alpha| [r, g, b, alpha]),
        Mode::I16 => to_wide(stored, from, to),
    }
}

/// Calls `make` with the red, green and blue of each pixel, and its alpha.
#[inline(always)]
fn each<const TO: usize>(stored: Stored, from: &[u8], to: &mut [u8], make: impl Fn([u8; 3], u8) -> [u8; TO]) {
    match stored {
        Stored::Rgb8 => mapped(from, to, |rgb| make(rgb, 255)),
        Stored::Grey8 | Stored::Index8 => mapped(from, to, |[grey]| make([grey; 3], 255)),
        Stored::GreyAlpha8 => mapped(from, to, |[grey, alpha]| make([grey; 3], alpha)),
        Stored::Rgba8 => mapped(from, to, |[r, g, b, alpha]| make([r, g, b], alpha)),
        Stored::Grey16 => mapped(from, to, |value| make([clipped(value); 3], 255)),
        Stored::GreyAlpha16Clipped => mapped(from, to, |[a, b, c, d]| make([clipped([a, b]); 3], upper([c, d]))),
        Stored::GreyAlpha16 => mapped(from, to, |[a, b, c, d]| make([upper([a, b]); 3], upper([c, d]))),
        Stored::Rgb16 => mapped(from, to, |p: [u8; 6]| make(uppers(p), 255)),
        Stored::Rgba16 => mapped(from, to, |[a, b, c, d, e, f, g, h]| make(uppers([a, b, c, d, e, f]), upper([g, h]))),
        Stored::Cmyk => mapped(from, to, |[c, m, y, k]| make(inked([c, m, y], k), 255)),
        Stored::Ycck => mapped(from, to, |[y, b, r, k]| make(inked(ycc_to_cmy(y, b, r), k), 255)),
    }
}

/// Grey of 16 bits: what has it keeps its numbers, and so do 8 bits; colours become their luma.
fn to_wide(stored: Stored, from: &[u8], to: &mut [u8]) {
    let of_colours =
        |rgb: [[u8; 2]; 3]| (weighed(rgb.map(|value| u16::from_ne_bytes(value).into())) as u16).to_ne_bytes();
    match stored {
        Stored::GreyAlpha16Clipped | Stored::GreyAlpha16 => mapped(from, to, |[a, b, _, _]| [a, b]),
        Stored::Rgb16 => mapped(from, to, |[a, b, c, d, e, f]| of_colours([[a, b], [c, d], [e, f]])),
        Stored::Rgba16 => mapped(from, to, |[a, b, c, d, e, f, _, _]| of_colours([[a, b], [c, d], [e, f]])),
        _ => each(stored, from, to, |rgb, _| u16::from(luma(rgb)).to_ne_bytes()),
    }
}

#[inline(always)]
fn mapped<const FROM: usize, const TO: usize>(from: &[u8], to: &mut [u8], pixel: impl Fn([u8; FROM]) -> [u8; TO]) {
    for (from, to) in from.as_chunks::<FROM>().0.iter().zip(to.as_chunks_mut::<TO>().0) {
        *to = pixel(*from);
    }
}

/// The luma of ITU-R BT.601, as Pillow's `convert("L")` rounds it.
#[inline(always)]
#[must_use]
pub fn luma(rgb: [u8; 3]) -> u8 {
    weighed(rgb.map(u32::from)) as u8
}

#[inline(always)]
const fn weighed([red, green, blue]: [u32; 3]) -> u32 {
    (19_595 * red + 38_470 * green + 7_471 * blue + 0x8000) >> 16
}

fn uppers([a, b, c, d, e, f]: [u8; 6]) -> [u8; 3] {
    [upper([a, b]), upper([c, d]), upper([e, f])]
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
