//! Any bytes make pixels of every mode or a complaint: `cargo +nightly fuzz run image_decode`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::image::{limits::Limits, mode::Mode, one_image};

fuzz_target!(|data: &[u8]| {
    let limits = Limits { pixels: 1 << 18, ..Limits::default() }; // of which every mode takes a while
    let _ = one_image::mode(data);
    for mode in Mode::ALL {
        if let Ok(((width, height), pixels)) = one_image::decode(data, mode, true, limits) {
            assert_eq!(pixels.len(), width as usize * height as usize * mode.bytes());
        }
    }
});
