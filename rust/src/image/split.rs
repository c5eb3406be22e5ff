//! Interleaved pixels to planes.

use super::resample::pitch_of;
#[cfg(target_arch = "x86_64")]
use super::shuffle_avx2;
use super::simd::Level;

/// A row of pixels, of so many bytes each, as planes that follow one another at their pitch.
pub fn split_row(level: Level, row: &[u8], planes: usize, out: &mut [u8]) {
    let width = row.len() / planes;
    let pitch = pitch_of(width);
    if planes == 3 {
        let (red, others) = out.split_at_mut(pitch);
        let (green, blue) = others.split_at_mut(pitch);
        return split(level, row, [red, green, blue]);
    }
    for (index, plane) in out.chunks_exact_mut(pitch).enumerate() {
        plane.iter_mut().zip(row[index..].iter().step_by(planes)).for_each(|(to, &from)| *to = from);
    }
}

/// The planes of a row of pixels of three bytes.
fn split(level: Level, row: &[u8], planes: [&mut [u8]; 3]) {
    match level {
        Level::Scalar => {
            let [red, green, blue] = planes;
            for (((&[r, g, b], red), green), blue) in row.as_chunks::<3>().0.iter().zip(red).zip(green).zip(blue) {
                (*red, *green, *blue) = (r, g, b);
            }
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx2(token) => shuffle_avx2::split(token, row, planes),
    }
}
