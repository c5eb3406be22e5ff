//! Decodes two MCU rows at once, where entry points give the beginning of both.
//!
//! Decoding a symbol waits for the table's answer to the one before. With two places in the scan, one continues while the other waits.

use super::EntryPoints;
use super::block::decode_two;
use super::idct;
use super::kernels::Kernels;
use super::queue::Queue;
use super::scan::{Cursor, Fault, ScanPlan};

impl<'a> ScanPlan<'a> {
    /// Whether MCU rows can be decoded two at a time: no restart markers between, and more than the DC coefficients is wanted.
    pub fn takes_two(&self) -> bool {
        self.restart_interval == 0 && self.layout.planes.iter().all(|plane| plane.size > 1)
    }

    /// Decodes the needed MCUs of rows `row` and `row + 1` into the planes; the cursor is behind them then. After a fault nothing
    /// is changed but the planes, whose rows are as good as not decoded: taken one by one, they tell what is wrong.
    #[inline(always)]
    pub fn decode_two_rows<K: Kernels>(
        &self,
        cursor: &mut Cursor<'a>,
        row: usize,
        entries: &EntryPoints,
        queue: &mut Queue,
        planes: &mut [u8],
    ) -> Result<(), Fault> {
        let mut cursors = [*cursor; 2];
        for (cursor, row) in cursors.iter_mut().zip(row..) {
            let mcu = row * self.mcus.0 + self.columns.start;
            self.jump(cursor, mcu, entries);
            self.skip_to(cursor, mcu)?;
        }
        queue.clear();
        self.decode_mcus_of_two::<K>(&mut cursors, row, queue, planes)?;
        queue.flush::<K>(&self.steps, planes, true);
        *cursor = cursors[1];
        Ok(())
    }

    #[inline(always)]
    fn decode_mcus_of_two<K: Kernels>(
        &self,
        cursors: &mut [Cursor<'a>; 2],
        row: usize,
        queue: &mut Queue,
        planes: &mut [u8],
    ) -> Result<(), Fault> {
        let mut targets = [self.targets(row), self.targets(row + 1)];
        let [first, second] = cursors;
        let (mut one, mut two) = (first.bits, second.bits); // Copies that live in registers.
        for _ in self.columns.clone() {
            for (index, slot) in self.slots[..self.slot_count].iter().enumerate() {
                let part = slot.part & 3;
                let predictions = [&mut first.predictions[part], &mut second.predictions[part]];
                let blocks = queue.next_two();
                let are_flat = decode_two([&mut one, &mut two], self.dc[part], self.ac[part], predictions, blocks)?;
                let predictions = [first.predictions[part], second.predictions[part]];
                if are_flat == [true, false] {
                    queue.drop_next();
                }
                for (place, is_flat) in are_flat.into_iter().enumerate() {
                    let (target, advance, size) = &mut targets[place][index];
                    if is_flat {
                        let step = self.steps[slot.component & 3][0];
                        idct::fill(idct::flat_sample(predictions[place] as i16, step), *size, planes, *target);
                    } else {
                        queue.push(slot.component, *size, *target);
                    }
                    target.offset += *advance;
                }
                if queue.len() >= 6 {
                    queue.flush::<K>(&self.steps, planes, false);
                }
            }
            if one.exhausted() || two.exhausted() {
                return Err(Fault::Exhausted);
            }
        }
        for (cursor, bits) in [(first, one), (second, two)] {
            cursor.bits = bits;
            cursor.mcu += self.columns.len();
        }
        Ok(())
    }
}
