//! Encoded bytes to rows of pixels, by the decoder that fits the content.
//!
//! Baseline JPEG is streamed; everything else is decoded whole into a buffer that the thread reuses, and converted row
//! by row. Nothing is allocated before the header's size has passed the limit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use super::contents::Loss;
use super::fault::Fault;
use super::header::{Header, Kind};
use super::indices::indices;
use super::limits::{KEEP_BYTES, Limits};
use super::mode::{Mode, Stored};
use super::pixels::convert;
use super::whole::{other, other_jpeg};
use crate::core::geometry::Rect;
use crate::jpeg::{self, EntryPoints, PlaneRow};

/// Takes consecutive rows of a region: the number of the first, counted in the region, and their pixels' bytes.
pub type Sink<'a> = dyn FnMut(u32, &[u8]) + 'a;

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
            let parsed = jpeg::Header::parse(data).map_err(Fault::damaged_jpeg)?;
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
            return self.jpeg.decode(data, header, region, &options, sink).map_err(Fault::damaged_jpeg);
        }
        let converted = &mut self.row;
        let mut convert = |first: u32, rows: &[u8]| {
            converted.resize(rows.len() / 3 * mode.bytes(), 0);
            convert(Stored::Rgb8, mode, rows, converted);
            sink(first, converted);
        };
        self.jpeg.decode(data, header, region, &options, &mut convert).map_err(Fault::damaged_jpeg)
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
        self.jpeg.decode_colours(data, header, region, &options, sink).map_err(Fault::damaged_jpeg)
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
        self.jpeg.decode_planes(data, header, region, &options, sink).map_err(Fault::damaged_jpeg)
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
        drop(sender.send((found.unwrap_or_else(|panic| Err(Fault::of_panic(&*panic))), whole)));
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
