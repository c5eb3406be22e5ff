//! Any bytes as a RecordIO file: records lie within the file, one behind the other, and each gives its data.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::records::framing::{parts, recordio};

fuzz_target!(|data: &[u8]| {
    let mut lengths = Vec::new();
    let read = |at: u64, out: &mut [u8]| {
        out.copy_from_slice(&data[at as usize..at as usize + out.len()]);
        Ok(())
    };
    let walked = recordio::walk_records(data.len() as u64, 1 << 20, read, |length| {
        lengths.push(length as i64);
        Ok(())
    });
    let total: i64 = lengths.iter().sum();
    assert!(total <= data.len() as i64);
    assert!(walked.is_err() || total == data.len() as i64);
    let offset: Vec<i64> = lengths.iter().scan(0, |at, length| Some(std::mem::replace(at, *at + length))).collect();
    let found = parts::payloads(&[data], &vec![0; lengths.len()], &offset, &lengths).expect("walked records have data");
    assert!(found.length.iter().sum::<i64>() <= total);
    let _ = parts::payloads(&[data], &[0], &[0], &[data.len() as i64]);
});
