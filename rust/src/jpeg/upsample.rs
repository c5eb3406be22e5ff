//! Chroma upsampling of one row in scalar code, equal to libjpeg-turbo's "fancy" (triangle) and plain methods.
//!
//! The rows given here have one more sample on either side: the neighbour, or the edge sample again at the image's
//! edge. With that the edge needs no special case: libjpeg's edge rules are the general rule with a repeated sample.

/// Doubles a row: `out[2i]`, `out[2i+1]` from `near[i]`, `near[i+1]`, `near[i+2]` (the row is shifted by one because of
/// the sample on its left).
#[inline(always)]
pub(super) fn double_row(near: &[u8], out: &mut [u8]) {
    for (pair, window) in out.chunks_exact_mut(2).zip(near.windows(3)) {
        let [left, middle, right] = [window[0], window[1], window[2]].map(u16::from);
        pair[0] = ((3 * middle + left + 1) >> 2) as u8;
        pair[1] = ((3 * middle + right + 2) >> 2) as u8;
    }
}

/// Doubles a row that lies a quarter of a sample from `near` towards `far`.
#[inline(always)]
pub(super) fn double_both(near: &[u8], far: &[u8], out: &mut [u8]) {
    for ((pair, near), far) in out.chunks_exact_mut(2).zip(near.windows(3)).zip(far.windows(3)) {
        let [left, middle, right] = [0, 1, 2].map(|i| 3 * u16::from(near[i]) + u16::from(far[i]));
        pair[0] = ((3 * middle + left + 8) >> 4) as u8;
        pair[1] = ((3 * middle + right + 7) >> 4) as u8;
    }
}

/// A full-width row between two rows; `below` says that `far` is the lower one.
#[inline(always)]
pub(super) fn between_rows(near: &[u8], far: &[u8], below: bool, out: &mut [u8]) {
    let bias = if below { 2 } else { 1 };
    for ((value, &near), &far) in out.iter_mut().zip(near).zip(far) {
        *value = ((3 * u16::from(near) + u16::from(far) + bias) >> 2) as u8;
    }
}

/// Repeats every sample `times` times.
#[inline(always)]
pub(super) fn repeat_row(row: &[u8], times: usize, out: &mut [u8]) {
    match times {
        2 => out.chunks_exact_mut(2).zip(row).for_each(|(part, &value)| part.fill(value)),
        _ => out.chunks_mut(times).zip(row).for_each(|(part, &value)| part.fill(value)),
    }
}
