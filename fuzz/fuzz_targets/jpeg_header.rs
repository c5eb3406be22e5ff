//! Segments: any bytes give a header or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::jpeg::Header;

fuzz_target!(|data: &[u8]| {
    if let Ok(header) = Header::parse(data) {
        assert!(header.scan.start <= data.len());
        let _ = header.is_supported();
    }
});
