//! One scan: its blocks, tables and MCUs, and a place in it.

use std::ops::Range;

use super::bits::Bits;
use super::block::BadCode;
use super::frame::{Scan, Tables};
use super::huffman::HuffmanTable;
use super::layout::Layout;
use super::tables::TableCache;

/// Why a scan stopped.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// A code that no table has.
    Code,
    /// The data or the restart interval ended too early.
    Exhausted,
    /// A restart marker is missing or has the wrong number.
    Restart,
    /// An entry point cannot be stored.
    Place,
}

impl From<BadCode> for Fault {
    fn from(_: BadCode) -> Self {
        Self::Code
    }
}

/// One block of an MCU.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot {
    /// Index of the component in the scan, and in the image.
    pub part: usize,
    pub component: usize,
    /// Place of the block in its MCU, in blocks.
    pub x: usize,
    pub y: usize,
}

/// What stays the same during a scan.
pub(super) struct ScanPlan<'a> {
    pub slots: [Slot; 10],
    pub slot_count: usize,
    pub dc: [&'a HuffmanTable; 4],
    pub ac: [&'a HuffmanTable; 4],
    pub steps: [&'a [u16; 64]; 4],
    pub layout: &'a Layout,
    /// A scan of one component has MCUs of one block.
    pub single: bool,
    /// The scan's MCUs, and those that the region needs.
    pub mcus: (usize, usize),
    pub columns: Range<usize>,
    pub rows: Range<usize>,
    pub restart_interval: usize,
    start: usize,
    /// Missing data is no fault: the MCU in which it ends reads zeros, those behind it are grey, as in libjpeg.
    pub lenient: bool,
}

/// Where decoding is.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    pub data: &'a [u8],
    pub bits: Bits<'a>,
    pub predictions: [i32; 4],
    /// Number of the next MCU.
    pub mcu: usize,
    /// MCUs until a restart marker is due.
    pub restart_in: usize,
    /// The data of this restart interval has ended; only in lenient scans.
    pub starved: bool,
}

impl<'a> ScanPlan<'a> {
    /// `None` if a table that the scan needs was never defined.
    pub fn new(
        scan: &Scan,
        tables: &'a Tables,
        cache: &'a TableCache,
        layout: &'a Layout,
        quantisation: &[u8; 4],
        lenient: bool,
    ) -> Option<Self> {
        let single = scan.len == 1;
        let (dc, ac) = (cache.dc(scan)?, cache.ac(scan)?);
        let any = tables.quantisation.iter().flatten().next()?;
        let mut steps: [&[u16; 64]; 4] = [any; 4];
        let (mut slots, mut slot_count) = ([Slot::default(); 10], 0);
        for (part, &(component, ..)) in scan.components[..scan.len].iter().enumerate() {
            let component = usize::from(component);
            let plane = layout.planes.get(component)?;
            steps[component] = tables.quantisation[usize::from(quantisation[component])].as_ref()?;
            let (h, v) = if single { (1, 1) } else { (plane.horizontal, plane.vertical) };
            for i in 0..h * v {
                *slots.get_mut(slot_count)? = Slot { part, component, x: i % h, y: i / h };
                slot_count += 1;
            }
        }
        let (mut mcus, mut columns, mut rows) = (layout.mcus, layout.columns.clone(), layout.rows.clone());
        if single {
            let plane = &layout.planes[slots[0].component];
            mcus = (plane.width.div_ceil(plane.size), plane.height.div_ceil(plane.size));
            columns = columns.start * plane.horizontal..(columns.end * plane.horizontal).min(mcus.0);
            rows = rows.start * plane.vertical..(rows.end * plane.vertical).min(mcus.1);
        }
        let restart_interval = tables.restart_interval as usize;
        let start = scan.start;
        Some(Self {
            slots,
            slot_count,
            dc,
            ac,
            steps,
            layout,
            single,
            mcus,
            columns,
            rows,
            restart_interval,
            start,
            lenient,
        })
    }

    /// At the scan's first MCU.
    pub fn cursor(&self, data: &'a [u8]) -> Cursor<'a> {
        Cursor {
            data,
            bits: Bits::new(data, self.start, 0),
            predictions: [0; 4],
            mcu: 0,
            restart_in: self.restart_interval,
            starved: false,
        }
    }

    /// Place of the next MCU, behind the restart marker that may be due, and the predictions there.
    pub fn entry(&self, cursor: &mut Cursor<'a>) -> Result<(usize, u32, [i32; 4]), Fault> {
        if self.restart_interval > 0 && cursor.restart_in == 0 {
            self.restart(cursor)?;
        }
        let (offset, bit) = cursor.bits.place(self.start).ok_or(Fault::Place)?;
        Ok((offset, bit, cursor.predictions))
    }
}
