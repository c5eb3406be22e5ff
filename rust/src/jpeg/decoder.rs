//! From a file's bytes to rows: one scan or several, each MCU row by MCU row.

use super::emit::{Emitter, Output};
use super::kernels::{Kernels, Scalar};
use super::layout::Layout;
use super::queue::Queue;
use super::scan::{Cursor, Fault, ScanPlan};
use super::segments::{Stop, Walker};
use super::tables::TableCache;
use super::{DecodeOptions, Header, JpegError};
use crate::core::geometry::Rect;

/// Memory above this is given back after each image.
const KEEP_BYTES: usize = 64 << 20;

/// Decodes images one after the other. Keeps its memory (about 50 rows of the widest image) and its Huffman tables;
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

    /// Decodes a region of the image and calls `sink(first_row, rows)` with one or more consecutive rows, in order,
    /// as interleaved RGB of `region.width * 3` bytes each; `first_row` counts from the region's top.
    ///
    /// # Errors
    /// If the image is not supported, damaged or cut off, or if region, scale or entry points do not fit it. Rows
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

    pub(super) fn run(
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
        self.hold(&layout, options)?;
        self.emitter.start(&layout);
        let result = self.decode_best(data, header, &layout, options, output);
        if self.planes.len() > KEEP_BYTES {
            self.planes = Vec::new();
        }
        result
    }

    /// Makes room for the samples of all planes.
    fn hold(&mut self, layout: &Layout, options: &DecodeOptions) -> Result<(), JpegError> {
        if self.planes.len() >= layout.bytes {
            return Ok(());
        }
        if layout.bytes > KEEP_BYTES {
            let failed = JpegError::TooManyBytes { bytes: layout.bytes as u64, limit: options.max_bytes };
            self.planes = Vec::new();
            Vec::<u8>::new().try_reserve_exact(layout.bytes).map_err(|_| failed)?;
            self.planes = vec![0; layout.bytes];
        } else {
            self.planes.resize(layout.bytes, 0);
        }
        Ok(())
    }

    fn decode_best(
        &mut self,
        data: &[u8],
        header: &Header,
        layout: &Layout,
        options: &DecodeOptions,
        output: &mut Output<'_>,
    ) -> Result<(), JpegError> {
        #[cfg(target_arch = "x86_64")]
        if !options.scalar && super::kernels::has_avx2() {
            return super::avx2::decode(self, data, header, layout, options, output);
        }
        self.decode_with::<Scalar>(data, header, layout, options, output)
    }

    #[inline(always)]
    pub(super) fn decode_with<K: Kernels>(
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
        let entries = options.entry_points.filter(|_| plan.takes_two());
        let mut row = plan.rows.start;
        while row < plan.rows.end {
            let (queue, planes) = (&mut *self.queue, &mut self.planes);
            // No closure: it would be compiled without the CPU's features.
            let two = match entries {
                Some(entries) if row + 1 < plan.rows.end => {
                    plan.decode_two_rows::<K>(&mut cursor, row, entries, queue, planes).is_ok()
                }
                _ => false,
            };
            if !two {
                decode_row::<K>(&plan, &mut cursor, row, options, queue, planes)
                    .map_err(|fault| fault_error(fault, &cursor))?;
            }
            row += 1 + usize::from(two);
            self.emitter.emit::<K>(layout, &mut self.planes, row, output);
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
pub(super) fn fault_error(fault: Fault, cursor: &Cursor) -> JpegError {
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
