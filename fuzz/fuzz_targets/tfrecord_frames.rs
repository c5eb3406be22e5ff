//! Any bytes as a TFRecord file: frames lie within the file, one behind the other, and memory stays bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::records::framing::{tfrecord, unpack};

fuzz_target!(|data: &[u8]| {
    let mut total = 0;
    let read = |at: u64, out: &mut [u8]| {
        out.copy_from_slice(&data[at as usize..at as usize + out.len()]);
        Ok(())
    };
    let walked = tfrecord::walk_frames(data.len() as u64, 1 << 20, read, |length| {
        total += length;
        Ok(())
    });
    assert!(total <= data.len() as u64);
    assert!(walked.is_err() || total == data.len() as u64);
    let _ = unpack::recognise(data);
});
