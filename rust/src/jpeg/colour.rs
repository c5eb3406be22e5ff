//! YCbCr to RGB (ITU T.871) in scalar code, with libjpeg's 16-bit fixed-point rounding, and the other conversions.

/// Converts one pixel.
#[inline(always)]
pub(super) fn ycc_pixel(y: u8, cb: u8, cr: u8) -> [u8; 3] {
    let (y, cb, cr) = (i32::from(y), i32::from(cb) - 128, i32::from(cr) - 128);
    let red = y + ((91881 * cr + 32768) >> 16);
    let green = y + ((-22554 * cb - 46802 * cr + 32768) >> 16);
    let blue = y + ((116130 * cb + 32768) >> 16);
    [red, green, blue].map(|value| value.clamp(0, 255) as u8)
}

/// Converts a row of planar Y, Cb, Cr to interleaved RGB; `out.len() / 3` pixels.
#[inline(always)]
pub(super) fn ycc_row(y: &[u8], cb: &[u8], cr: &[u8], out: &mut [u8]) {
    for (((pixel, &y), &cb), &cr) in out.chunks_exact_mut(3).zip(y).zip(cb).zip(cr) {
        pixel.copy_from_slice(&ycc_pixel(y, cb, cr));
    }
}

/// Converts planar Y, Cb, Cr to planar RGB in place.
#[inline(always)]
pub(super) fn ycc_planes([y, cb, cr]: [&mut [u8]; 3]) {
    for ((y, cb), cr) in y.iter_mut().zip(cb).zip(cr) {
        [*y, *cb, *cr] = ycc_pixel(*y, *cb, *cr);
    }
}

/// Interleaves three planar rows.
#[inline(always)]
pub(super) fn interleave_row(red: &[u8], green: &[u8], blue: &[u8], out: &mut [u8]) {
    for (((pixel, &red), &green), &blue) in out.chunks_exact_mut(3).zip(red).zip(green).zip(blue) {
        pixel.copy_from_slice(&[red, green, blue]);
    }
}
