//! Any bytes as a piece of a stream: its records lie inside it, and a shorter piece has the first of them. The first byte chooses the framing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::records::framing::pieces::{Framed, whole_records};

fuzz_target!(|data: &[u8]| {
    let Some((&choice, data)) = data.split_first() else { return };
    let framed = [Framed::TfRecord, Framed::RecordIo, Framed::Lines][usize::from(choice) % 3];
    let Ok(whole) = whole_records(framed, data, 0, 1 << 20) else { return };
    assert!(whole.iter().all(|length| *length > 0));
    assert!(whole.iter().sum::<i64>() as usize <= data.len());
    let cut = data.len() * usize::from(choice / 3) / 86;
    let first = whole_records(framed, &data[..cut], 0, 1 << 20).expect("what is sound as a whole is sound in part");
    assert!(whole.starts_with(&first));
});
