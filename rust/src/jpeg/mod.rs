//! Baseline JPEG (ITU T.81): whole pictures, regions of them, and starting in the middle of a scan.
//!
//! The samples equal libjpeg-turbo's with the accurate integer DCT and fancy upsampling, bit for bit. A region costs
//! what its own MCUs cost: blocks above and beside it are passed over without inverse DCT, with [`EntryPoints`] they are
//! not even looked at, and what lies below is never read. Progressive, arithmetic, lossless, 12-bit and four-component
//! files are not read here; [`Header::is_supported`] tells.
//!
//! The way of the data: `header` (`segments`) → `scan` (MCUs; `queue`) → `bits`, `huffman`, `block` (coefficients) → `idct`
//! (samples in planes, whose places `layout` knows) → `emit` (`upsample`, `colour`: RGB rows for the caller's sink; `planar`:
//! rows of the planes).

mod bits;
mod block;
mod colour;
mod emit;
mod entry;
mod error;
mod exif;
mod header;
mod huffman;
mod idct;
#[cfg(target_arch = "x86_64")]
mod idct_avx2;
mod kernels;
mod layout;
mod planar;
mod queue;
#[cfg(target_arch = "x86_64")]
mod rows_avx2;
mod scan;
mod segments;
mod tables;
mod upsample;

pub use entry::EntryPoints;
pub use error::JpegError;
pub use header::{Colour, Component, Header, Scan, Tables};
pub use huffman::HuffmanSpec;
pub use planar::{PlaneAxis, PlaneRow, ycc_to_rgb};

use crate::geometry::Rect;
use emit::{Emitter, Output};
use kernels::{Kernels, Scalar};
use layout::Layout;
use queue::Queue;
use scan::{Cursor, Fault, ScanPlan};
use segments::{Stop, Walker};
use tables::TableCache;

/// How to decode.
#[derive(Clone, Copy, Debug)]
pub struct DecodeOptions<'a> {
    /// Picture size divided by this: 1, 2, 4 or 8 (sizes round up). The region counts in scaled pixels.
    pub scale: u8,
    /// Places to start, made by [`EntryPoints::build`] from the same bytes.
    pub entry_points: Option<&'a EntryPoints>,
    /// Triangle filter for chroma (libjpeg's default) instead of repeated samples.
    pub fancy_upsampling: bool,
    /// Grey blocks where the data ends too early, as Pillow with `LOAD_TRUNCATED_IMAGES`, instead of an error.
    pub allow_truncated: bool,
    /// Largest width times height that the header may claim.
    pub max_pixels: u64,
    /// Never use AVX2 (for tests: the samples are the same).
    pub scalar: bool,
}

impl Default for DecodeOptions<'_> {
    fn default() -> Self {
        Self {
            scale: 1,
            entry_points: None,
            fancy_upsampling: true,
            allow_truncated: false,
            max_pixels: 1 << 28,
            scalar: false,
        }
    }
}

/// Decodes pictures one after the other. Keeps its memory (about 50 rows of the widest picture) and its Huffman tables;
/// one per thread.
pub struct Decoder {
    tables: TableCache,
    queue: Box<Queue>,
    planes: Vec<u8>,
    emitter: Emitter,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Header {
    /// Width and height of the picture at a scale, in pixels.
    #[must_use]
    pub fn scaled_size(&self, scale: u8) -> (u32, u32) {
        let scale = u32::from(scale.max(1));
        (self.width.div_ceil(scale), self.height.div_ceil(scale))
    }

    /// Pixels that an MCU of the picture covers: width and height.
    #[must_use]
    pub fn mcu_size(&self) -> (u32, u32) {
        let parts = &self.components[..self.component_count.min(4)];
        if parts.len() == 1 {
            return (8, 8);
        }
        let largest = |part: fn(&Component) -> u8| u32::from(parts.iter().map(part).max().unwrap_or(1));
        (8 * largest(|part| part.horizontal), 8 * largest(|part| part.vertical))
    }

    /// The whole picture at a scale.
    #[must_use]
    pub fn whole(&self, scale: u8) -> Rect {
        let (width, height) = self.scaled_size(scale);
        Rect { x: 0, y: 0, width, height }
    }
}

impl Decoder {
    /// A decoder without any memory yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            tables: TableCache::default(),
            queue: Box::new(Queue::new()),
            planes: Vec::new(),
            emitter: Emitter::default(),
        }
    }

    /// Decodes a region of the picture and calls `sink(first_row, rows)` with one or more consecutive rows, in order,
    /// as interleaved RGB of `region.width * 3` bytes each; `first_row` counts from the region's top.
    ///
    /// # Errors
    /// If the picture is not supported, damaged or cut off, or if region, scale or entry points do not fit it. Rows
    /// that the sink has received before an error are valid.
    pub fn decode(
        &mut self,
        data: &[u8],
        header: &Header,
        region: Rect,
        options: &DecodeOptions,
        sink: &mut dyn FnMut(u32, &[u8]),
    ) -> Result<(), JpegError> {
        self.run(data, header, region, options, &mut Output::Rgb(sink))
    }

    fn run(
        &mut self,
        data: &[u8],
        header: &Header,
        region: Rect,
        options: &DecodeOptions,
        output: &mut Output<'_>,
    ) -> Result<(), JpegError> {
        let layout = Layout::new(header, region, options)?;
        if header.scan.start > data.len() {
            return Err(JpegError::Truncated { offset: data.len(), what: "the header" });
        }
        if let Some(entries) = options.entry_points {
            entries.check(header, layout.mcus, data.len())?;
        }
        if self.planes.len() < layout.bytes {
            self.planes.resize(layout.bytes, 0);
        }
        self.emitter.start(&layout);
        #[cfg(target_arch = "x86_64")]
        if !options.scalar && kernels::has_avx2() {
            return avx2::decode(self, data, header, &layout, options, output);
        }
        self.decode_with::<Scalar>(data, header, &layout, options, output)
    }

    #[inline(always)]
    fn decode_with<K: Kernels>(
        &mut self,
        data: &[u8],
        header: &Header,
        layout: &Layout,
        options: &DecodeOptions,
        output: &mut Output<'_>,
    ) -> Result<(), JpegError> {
        if header.scan.len == header.component_count {
            self.interleaved::<K>(data, header, layout, options, output)
        } else {
            self.separate::<K>(data, header, layout, options, output)
        }
    }

    /// One scan with all components: rows leave as soon as they are complete.
    #[inline(always)]
    fn interleaved<K: Kernels>(
        &mut self,
        data: &[u8],
        header: &Header,
        layout: &Layout,
        options: &DecodeOptions,
        output: &mut Output<'_>,
    ) -> Result<(), JpegError> {
        self.tables.update(&header.scan, &header.tables);
        let quantisation = header.components.map(|part| part.quantisation);
        let plan =
            ScanPlan::new(&header.scan, &header.tables, &self.tables, layout, &quantisation, options.allow_truncated)
                .ok_or_else(|| missing_table(header.scan.start))?;
        let mut cursor = plan.cursor(data);
        for row in plan.rows.clone() {
            decode_row::<K>(&plan, &mut cursor, row, options, &mut self.queue, &mut self.planes)
                .map_err(|fault| fault_error(fault, &cursor))?;
            self.emitter.emit::<K>(layout, &mut self.planes, row + 1, output);
        }
        Ok(())
    }

    /// Several scans: all planes of the region first, then its rows.
    #[inline(always)]
    fn separate<K: Kernels>(
        &mut self,
        data: &[u8],
        header: &Header,
        layout: &Layout,
        options: &DecodeOptions,
        output: &mut Output<'_>,
    ) -> Result<(), JpegError> {
        let (mut scan, mut tables) = (header.scan, header.tables.clone());
        let quantisation = header.components.map(|part| part.quantisation);
        let mut seen = [false; 4];
        self.planes[..layout.bytes].fill(128);
        loop {
            for part in &scan.components[..scan.len] {
                if std::mem::replace(&mut seen[usize::from(part.0)], true) {
                    let found = u32::from(part.0);
                    return Err(JpegError::Corrupt { offset: scan.start, what: "a component comes twice", found });
                }
            }
            self.tables.update(&scan, &tables);
            let plan = ScanPlan::new(&scan, &tables, &self.tables, layout, &quantisation, options.allow_truncated)
                .ok_or_else(|| missing_table(scan.start))?;
            let mut cursor = plan.cursor(data);
            for row in plan.rows.clone() {
                decode_row::<K>(&plan, &mut cursor, row, options, &mut self.queue, &mut self.planes)
                    .map_err(|fault| fault_error(fault, &cursor))?;
            }
            if seen.iter().filter(|&&seen| seen).count() == header.component_count {
                break;
            }
            let mut walker = Walker::new(data, cursor.bits.offset(), tables);
            match walker.next_scan(&header.components[..header.component_count]) {
                Ok(Stop::Scan(next)) => scan = next,
                Err(JpegError::Truncated { .. }) | Ok(Stop::End) if options.allow_truncated => break,
                Ok(Stop::End) => return Err(JpegError::Truncated { offset: walker.pos, what: "the list of scans" }),
                Err(error) => return Err(error),
            }
            tables = walker.tables;
        }
        self.emitter.emit::<K>(layout, &mut self.planes, usize::MAX >> 16, output);
        Ok(())
    }
}

/// Goes to the needed part of an MCU row and decodes it.
#[inline(always)]
fn decode_row<'a, K: Kernels>(
    plan: &ScanPlan<'a>,
    cursor: &mut Cursor<'a>,
    row: usize,
    options: &DecodeOptions,
    queue: &mut Queue,
    planes: &mut [u8],
) -> Result<(), Fault> {
    plan.go_to(cursor, row * plan.mcus.0 + plan.columns.start, options.entry_points)?;
    plan.decode_row::<K>(cursor, row, queue, planes)
}

#[cold]
fn missing_table(offset: usize) -> JpegError {
    JpegError::Corrupt { offset, what: "a table that the scan needs is missing", found: 0 }
}

/// The message for a fault at a cursor.
#[cold]
fn fault_error(fault: Fault, cursor: &Cursor) -> JpegError {
    let (offset, found) = (cursor.bits.offset(), cursor.mcu as u32);
    match fault {
        Fault::Exhausted if cursor.bits.at_end() => JpegError::Truncated { offset, what: "the coefficients" },
        Fault::Exhausted => JpegError::Corrupt { offset, what: "a marker inside the coefficients, at MCU", found },
        Fault::Code => JpegError::Corrupt { offset, what: "an unknown Huffman code, at MCU", found },
        Fault::Restart if cursor.bits.at_end() => JpegError::Truncated { offset, what: "the coefficients" },
        Fault::Restart => JpegError::Corrupt { offset, what: "the restart marker is missing, at MCU", found },
        Fault::Place => JpegError::EntryPoints { offset, what: "fill bytes inside the coefficients" },
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    #![allow(unsafe_code)] // Two calls of functions that need CPU features.

    use super::kernels::{Avx2, has_avx2};
    use super::{DecodeOptions, Decoder, EntryPoints, Header, JpegError, Layout, Output, rows_avx2};

    /// [`EntryPoints::walk`], compiled for BMI2.
    pub(super) fn build(data: &[u8], header: &Header, every_mcus: u32) -> Result<EntryPoints, JpegError> {
        assert!(has_avx2());
        // SAFETY: the CPU has the features, as was just asserted.
        unsafe { build_avx2(data, header, every_mcus) }
    }

    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn build_avx2(data: &[u8], header: &Header, every_mcus: u32) -> Result<EntryPoints, JpegError> {
        EntryPoints::walk(data, header, every_mcus)
    }

    /// [`Decoder::decode_with`], compiled for AVX2 and BMI2 (shifts by a register, without flags).
    pub(super) fn decode(
        decoder: &mut Decoder,
        data: &[u8],
        header: &Header,
        layout: &Layout,
        options: &DecodeOptions,
        output: &mut Output<'_>,
    ) -> Result<(), JpegError> {
        assert!(has_avx2());
        // SAFETY: the CPU has the features, as was just asserted.
        unsafe { decode_avx2(decoder, data, header, layout, options, output) }
    }

    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn decode_avx2(
        decoder: &mut Decoder,
        data: &[u8],
        header: &Header,
        layout: &Layout,
        options: &DecodeOptions,
        output: &mut Output<'_>,
    ) -> Result<(), JpegError> {
        decoder.decode_with::<Avx2>(data, header, layout, options, output)
    }

    /// [`super::colour::ycc_planes`] with AVX2.
    pub(super) fn ycc_to_rgb(planes: [&mut [u8]; 3]) {
        assert!(has_avx2());
        // SAFETY: the CPU has the features, as was just asserted.
        unsafe { rows_avx2::ycc_planes(planes) }
    }
}
