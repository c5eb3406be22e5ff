//! The way through a scan, from one MCU to another: restart markers, entry points, blocks passed over and blocks decoded.

use super::bits::Bits;
use super::block::{decode_block, skip_block};
use super::entry::EntryPoints;
use super::huffman::HuffmanTable;
use super::idct::{self, Target};
use super::kernels::Kernels;
use super::queue::Queue;
use super::scan::{Cursor, Fault, ScanPlan};

impl<'a> ScanPlan<'a> {
    #[cold]
    #[inline(never)]
    pub fn restart(&self, cursor: &mut Cursor<'a>) -> Result<(), Fault> {
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
            self.jump(cursor, mcu, entries);
        }
        while self.restart_interval > 0 && cursor.mcu + cursor.restart_in < mcu {
            cursor.mcu += cursor.restart_in;
            self.restart(cursor)?;
        }
        self.skip_to(cursor, mcu)
    }

    /// Goes to the last entry point at or before an MCU, if it is ahead.
    #[inline(always)]
    pub fn jump(&self, cursor: &mut Cursor<'a>, mcu: usize, entries: &EntryPoints) {
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

    /// Passes over MCUs block by block until `mcu` is next.
    #[inline(always)]
    pub fn skip_to(&self, cursor: &mut Cursor<'a>, mcu: usize) -> Result<(), Fault> {
        if cursor.mcu >= mcu {
            return Ok(());
        }
        let skips = self.ac.map(HuffmanTable::skips);
        let mut bits = cursor.bits; // A copy that lives in registers.
        while cursor.mcu < mcu {
            self.before_mcu(cursor, &mut bits)?;
            if cursor.starved {
                continue;
            }
            for slot in &self.slots[..self.slot_count] {
                let part = slot.part & 3;
                let prediction = &mut cursor.predictions[part];
                if let Err(fault) = skip_block(&mut bits, self.dc[part], self.ac[part], skips[part], prediction) {
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

    /// Where the blocks of the first needed MCU of an MCU row go, how far it is to the next one's, and samples per block and side.
    #[inline(always)]
    pub fn targets(&self, row: usize) -> [(Target, usize, usize); 10] {
        let mut targets = [(Target::default(), 0usize, 0usize); 10];
        for (target, slot) in targets.iter_mut().zip(&self.slots[..self.slot_count]) {
            let plane = &self.layout.planes[slot.component];
            let (h, v) = if self.single { (1, 1) } else { (plane.horizontal, plane.vertical) };
            let first = (self.columns.start * h + slot.x) * plane.size - plane.first_x;
            let offset = plane.row((row * v + slot.y) * plane.size) + first;
            *target = (Target { offset, stride: plane.stride }, h * plane.size, plane.size);
        }
        targets
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
        let mut targets = self.targets(row);
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
                    skip_block(&mut bits, dc, ac, ac.skips(), prediction).map(|()| true)
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
                if is_flat {
                    idct::fill(idct::flat_sample(*prediction as i16, steps[0]), *size, planes, to);
                } else {
                    queue.push(slot.component, *size, to);
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
}
