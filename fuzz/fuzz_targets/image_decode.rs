//! Any bytes make pixels or a complaint: `cargo +nightly fuzz run image_decode`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::image::{limits::Limits, single};

fuzz_target!(|data: &[u8]| {
    if let Ok(((width, height), pixels)) = single::decode(data, true, Limits { pixels: 1 << 20, ..Limits::default() }) {
        assert_eq!(pixels.len(), width as usize * height as usize * 3);
    }
});
