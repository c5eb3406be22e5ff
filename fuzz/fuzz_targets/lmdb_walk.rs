//! Any bytes as an LMDB file: the walk ends, and every record that it finds lies within the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::records::framing::{Progress, lmdb};

fuzz_target!(|data: &[u8]| {
    let read = |at: u64, out: &mut [u8]| {
        out.copy_from_slice(&data[at as usize..at as usize + out.len()]);
        Ok(())
    };
    for database in [None, Some(&b"labels"[..])] {
        if let Ok(found) = lmdb::index(read, data.len() as u64, database, 1 << 20, &Progress::default()) {
            let places = found.offset.iter().zip(&found.length);
            assert!(places.into_iter().all(|(&at, &length)| at >= 0 && length >= 0 && at + length <= data.len() as i64));
            assert_eq!(found.offset.len(), found.key_ends.len());
            assert_eq!(found.key_ends.last().copied().unwrap_or(0), found.keys.len() as i64);
        }
    }
});
