//! One scan: its MCUs, restart markers, entry points and the way from one MCU to another.

use std::ops::Range;

use super::bits::Bits;
use super::block::{BadCode, decode_block, skip_block};
use super::entry::EntryPoints;
use super::header::{Scan, Tables};
use super::huffman::HuffmanTable;
use super::idct::{self, Target};
use super::kernels::Kernels;
use super::layout::Layout;
use super::queue::Queue;
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
struct Slot {
    /// Index of the component in the scan, and in the picture.
    part: usize,
    component: usize,
    /// Place of the block in its MCU, in blocks.
    x: usize,
    y: usize,
}

/// What stays the same during a scan.
pub(super) struct ScanPlan<'a> {
    slots: [Slot; 10],
    slot_count: usize,
    dc: [&'a HuffmanTable; 4],
    ac: [&'a HuffmanTable; 4],
    steps: [&'a [u16; 64]; 4],
    layout: &'a Layout,
    /// A scan of one component has MCUs of one block.
    single: bool,
    /// The scan's MCUs, and those that the region needs.
    pub mcus: (usize, usize),
    pub columns: Range<usize>,
    pub rows: Range<usize>,
    restart_interval: usize,
    start: usize,
    /// Missing data is no fault: the MCU in which it ends reads zeros, those behind it are grey, as in libjpeg.
    lenient: bool,
}

/// Where decoding is.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    data: &'a [u8],
    pub bits: Bits<'a>,
    pub predictions: [i32; 4],
    /// Number of the next MCU.
    pub mcu: usize,
    /// MCUs until a restart marker is due.
    restart_in: usize,
    /// The data of this restart interval has ended; only in lenient scans.
    starved: bool,
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

    #[cold]
    #[inline(never)]
    fn restart(&self, cursor: &mut Cursor<'a>) -> Result<(), Fault> {
        let number = cursor.mcu / self.restart_interval - 1;
        cursor.predictions = [0; 4];
        cursor.restart_in = self.restart_interval;
        if cursor.bits.restart() == Some((number & 7) as u8) {
            cursor.starved = false;
        } else if self.lenient && cursor.bits.at_end() {
            cursor.bits = Bits::new(cursor.data, cursor.data.len(), 0);
        } else {
            return Err(Fault::Restart);
        }
        Ok(())
    }

    /// Passes over MCUs until `mcu` is next; by the shortest way: from an entry point, from restart marker to restart
    /// marker, or block by block.
    #[inline(always)]
    pub fn go_to(&self, cursor: &mut Cursor<'a>, mcu: usize, entries: Option<&EntryPoints>) -> Result<(), Fault> {
        if let Some(entries) = entries {
            let (number, entry) = entries.before(mcu);
            if number > cursor.mcu {
                cursor.bits = Bits::new(cursor.data, entry.offset as usize, u32::from(entry.bit));
                cursor.predictions = [i32::from(entry.dc[0]), i32::from(entry.dc[1]), i32::from(entry.dc[2]), 0];
                cursor.mcu = number;
                if self.restart_interval > 0 {
                    cursor.restart_in = self.restart_interval - number % self.restart_interval;
                }
            }
        }
        while self.restart_interval > 0 && cursor.mcu + cursor.restart_in < mcu {
            cursor.mcu += cursor.restart_in;
            self.restart(cursor)?;
        }
        self.skip_to(cursor, mcu)
    }

    /// Passes over MCUs block by block until `mcu` is next.
    #[inline(always)]
    pub fn skip_to(&self, cursor: &mut Cursor<'a>, mcu: usize) -> Result<(), Fault> {
        let mut bits = cursor.bits; // A copy that lives in registers.
        while cursor.mcu < mcu {
            self.before_mcu(cursor, &mut bits)?;
            if cursor.starved {
                continue;
            }
            for slot in &self.slots[..self.slot_count] {
                let part = slot.part & 3;
                let prediction = &mut cursor.predictions[part];
                if let Err(fault) = skip_block(&mut bits, self.dc[part], self.ac[part], prediction) {
                    cursor.bits = bits;
                    return Err(fault.into());
                }
            }
            if bits.exhausted() {
                cursor.starved = self.lenient;
                if !self.lenient {
                    cursor.bits = bits;
                    return Err(Fault::Exhausted);
                }
            }
        }
        cursor.bits = bits;
        Ok(())
    }

    /// Does what is due before an MCU: reads the restart marker. `bits` replaces the cursor's own.
    #[inline(always)]
    fn before_mcu(&self, cursor: &mut Cursor<'a>, bits: &mut Bits<'a>) -> Result<(), Fault> {
        if self.restart_interval > 0 {
            if cursor.restart_in == 0 {
                cursor.bits = *bits;
                self.restart(cursor)?;
                *bits = cursor.bits;
            }
            cursor.restart_in -= 1;
        }
        cursor.mcu += 1;
        Ok(())
    }

    /// Decodes the needed MCUs of one MCU row into the planes. `cursor` must be at the row's first needed MCU.
    #[inline(always)]
    pub fn decode_row<K: Kernels>(
        &self,
        cursor: &mut Cursor<'a>,
        row: usize,
        queue: &mut Queue,
        planes: &mut [u8],
    ) -> Result<(), Fault> {
        let mut targets = [(Target::default(), 0usize, 0usize); 10];
        for (target, slot) in targets.iter_mut().zip(&self.slots[..self.slot_count]) {
            let plane = &self.layout.planes[slot.component];
            let (h, v) = if self.single { (1, 1) } else { (plane.horizontal, plane.vertical) };
            let first = (self.columns.start * h + slot.x) * plane.size - plane.first_x;
            let offset = plane.row((row * v + slot.y) * plane.size) + first;
            *target = (Target { offset, stride: plane.stride }, h * plane.size, plane.size);
        }
        queue.clear();
        let result = self.decode_mcus::<K>(cursor, &mut targets, queue, planes);
        queue.flush::<K>(&self.steps, planes, true);
        result
    }

    #[inline(always)]
    fn decode_mcus<K: Kernels>(
        &self,
        cursor: &mut Cursor<'a>,
        targets: &mut [(Target, usize, usize); 10],
        queue: &mut Queue,
        planes: &mut [u8],
    ) -> Result<(), Fault> {
        let mut bits = cursor.bits; // A copy that lives in registers.
        let mut result = Ok(());
        'row: for _ in self.columns.clone() {
            self.before_mcu(cursor, &mut bits)?;
            for (slot, (target, advance, size)) in self.slots[..self.slot_count].iter().zip(targets.iter_mut()) {
                let to = *target;
                target.offset += *advance;
                if cursor.starved {
                    idct::fill(128, *size, planes, to);
                    continue;
                }
                let part = slot.part & 3;
                let prediction = &mut cursor.predictions[part];
                let (dc, ac) = (self.dc[part], self.ac[part]);
                let decoded = if *size == 1 {
                    // One sample per block is the DC coefficient alone.
                    skip_block(&mut bits, dc, ac, prediction).map(|()| true)
                } else {
                    decode_block(&mut bits, dc, ac, prediction, queue.next())
                };
                let is_flat = match decoded {
                    Ok(is_flat) => is_flat,
                    Err(fault) => {
                        result = Err(fault.into());
                        break 'row;
                    }
                };
                let steps = self.steps[slot.component & 3];
                match *size {
                    _ if is_flat => idct::fill(idct::flat_sample(*prediction as i16, steps[0]), *size, planes, to),
                    8 | 4 => queue.push(slot.component, *size, to),
                    _ => idct::idct_2x2(queue.next(), steps, planes, to),
                }
            }
            if queue.len() >= 6 {
                queue.flush::<K>(&self.steps, planes, false);
            }
            if bits.exhausted() {
                cursor.starved = self.lenient;
                if !self.lenient {
                    result = Err(Fault::Exhausted);
                    break;
                }
            }
        }
        cursor.bits = bits;
        result
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
