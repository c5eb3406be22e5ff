//! Any bytes as a body in chunks: what is taken apart lies within them, and is the same however it comes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::io::http::chunks::{Chunks, Malformed};

fn body(data: &[u8], step: usize) -> Result<(Vec<u8>, bool), Malformed> {
    let (mut chunks, mut body) = (Chunks::default(), Vec::new());
    for mut bytes in data.chunks(step) {
        while let Some(piece) = chunks.piece(&mut bytes)? {
            body.extend_from_slice(piece);
        }
    }
    Ok((body, chunks.is_done()))
}

fuzz_target!(|data: &[u8]| {
    let whole = body(data, data.len().max(1));
    assert_eq!(body(data, 1), whole);
    if let Ok((body, _)) = whole {
        assert!(body.len() <= data.len());
    }
});
