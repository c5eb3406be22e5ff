//! Any bytes as a record of fields and as a list: what is found lies within, and copies stay in bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::records::fields::{Rows, copy, elements, split};

fuzz_target!(|data: &[u8]| {
    let Some((&choice, record)) = data.split_first() else { return };
    let length = [record.len() as i64];
    let rows = Rows { buffers: &[record], which: &[0], offset: &[0], length: &length };
    let widths = [None, Some(u64::from(choice & 15)), None, Some(u64::from(choice >> 4) << 60)];
    let widths = &widths[..1 + usize::from(choice & 3)];
    let (mut places, mut lengths) = (vec![0; widths.len()], vec![0; widths.len()]);
    if split(rows, widths, &mut places, &mut lengths).is_ok() {
        let ends = places.iter().zip(&lengths).map(|(place, length)| place + length);
        assert!(ends.max() == Some(length[0]));
    }
    if let Ok(found) = elements(rows, usize::from(choice & 4)) {
        assert!(found.offset.iter().zip(&found.length).all(|(place, bytes)| place + bytes <= length[0]));
    }
    let width = usize::from(choice);
    let _ = copy(rows, &record[..record.len().min(4)], width, &mut vec![0; width], None);
});
