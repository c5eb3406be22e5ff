//! The pixels of a JPEG XL file, by jxl-oxide: the first frame, turned as its header says.

use jxl_oxide::{AllocTracker, FrameBufferSample, ImageStream, InitializeResult, JxlImage};

use super::fault::Fault;
use super::header::Header;
use super::jxl::{check, codestream, damaged};
use super::limits::{Limits, zeroed};
use super::mode::Stored;

/// What the decoder may hold for each pixel: planes of floats, coefficients, and earlier frames that a frame refers to.
const PIXEL_BYTES: u64 = 192;
/// What it may hold besides: tables, and groups of pixels of a small image.
const BYTES_BESIDES: u64 = 32 << 20;
/// The first frame of an animation is taken as soon as it is there.
const PART_BYTES: usize = 1 << 16;

/// Decodes the first frame into `whole`.
pub(super) fn read(data: &[u8], header: &Header, limits: &Limits, whole: &mut Vec<u8>) -> Result<Stored, Fault> {
    let codestream = codestream(data);
    let stored = check(&codestream)?;
    let pixels = u64::from(header.width) * u64::from(header.height);
    let besides = pixels.saturating_mul(PIXEL_BYTES).saturating_add(2 * codestream.len() as u64 + BYTES_BESIDES);
    limits.check_whole(data, header, stored.size(), besides)?;
    let image = loaded(&codestream, AllocTracker::with_limit(usize::try_from(besides).unwrap_or(usize::MAX)))?;
    let render = image.render_frame(0).map_err(damaged)?;
    let stream = render.stream();
    let line = header.width as usize * stored.size();
    if (stream.width(), stream.height()) != (header.width, header.height) {
        return Err(damaged("contradictory headers"));
    }
    whole.clear();
    zeroed(whole, line * header.height as usize)?;
    match stored {
        Stored::Grey8 | Stored::GreyAlpha8 | Stored::Rgb8 | Stored::Rgba8 => {
            fill(stream, stored.size(), line, whole, |row: &[u8], out| out.copy_from_slice(row))?;
        }
        _ => fill(stream, stored.size() / 2, line, whole, |row: &[u16], out| {
            out.as_chunks_mut::<2>().0.iter_mut().zip(row).for_each(|(out, number)| *out = number.to_ne_bytes());
        })?,
    }
    Ok(stored)
}

/// The image, as far as its first frame; one that takes more memory than the tracker has is an error.
fn loaded(codestream: &[u8], tracker: AllocTracker) -> Result<JxlImage, Fault> {
    let mut parts = codestream.chunks(PART_BYTES);
    let mut begun = JxlImage::builder().alloc_tracker(tracker).build_uninit();
    let mut image = loop {
        begun.feed_bytes(parts.next().ok_or_else(|| cut_short(codestream))?).map_err(damaged)?;
        begun = match begun.try_init().map_err(damaged)? {
            InitializeResult::NeedMoreData(more) => more,
            InitializeResult::Initialized(image) => break image,
        };
    };
    while image.num_loaded_keyframes() == 0 {
        image.feed_bytes(parts.next().ok_or_else(|| cut_short(codestream))?).map_err(damaged)?;
    }
    Ok(image)
}

fn cut_short(codestream: &[u8]) -> Fault {
    Fault::damaged(format!("a JPEG XL file cut short ({} bytes of codestream)", codestream.len()))
}

/// Writes rows of `line` bytes from what the decoder gives.
fn fill<T: FrameBufferSample + Copy + Default>(
    mut stream: ImageStream<'_>,
    channels: usize,
    line: usize,
    whole: &mut [u8],
    write: impl Fn(&[T], &mut [u8]),
) -> Result<(), Fault> {
    if stream.channels() as usize != channels {
        return Err(damaged("contradictory headers"));
    }
    let mut row = vec![T::default(); stream.width() as usize * channels];
    for out in whole.chunks_exact_mut(line) {
        stream.write_to_buffer(&mut row);
        write(&row, out);
    }
    Ok(())
}
