//! Any bytes as each kind of tokenizer, and then texts: a fault in words, or ids.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::text::engine::{Engine, Special};
use penstock_core::text::tiktoken;

const TEXT: &str = "a b\u{e9} \u{4e00}  <s>\n1 ";

fuzz_target!(|data: &[u8]| {
    let Some((kind, data)) = data.split_first() else { return };
    let made = match kind % 3 {
        0 => std::str::from_utf8(data).map_err(|error| error.to_string()).and_then(Engine::of_json),
        1 => tiktoken::read_ranks(data).and_then(|ranks| tiktoken::engine(&ranks, r"\w+|\W", &[("<s>".into(), 70_000)])),
        _ => Engine::of_sentencepiece(data),
    };
    let Ok(engine) = made else { return };
    for special in [Special::Error, Special::AsText, Special::AsToken] {
        let _ = engine.encode(TEXT, special, &mut Vec::new());
    }
});
