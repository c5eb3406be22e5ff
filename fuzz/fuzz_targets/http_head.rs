//! Any bytes as a server's answer: the head that is found lies within them, is the same without what follows, and is none without its end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::io::http::head::{Head, request};

fuzz_target!(|data: &[u8]| {
    if let Ok(Some(head)) = Head::parse(data) {
        assert!(head.size <= data.len());
        assert_eq!(Head::parse(&data[..head.size]), Ok(Some(head.clone())));
        assert!(!matches!(Head::parse(&data[..head.size - 1]), Ok(Some(_))));
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Some((path, version)) = text.split_once('\n')
        && let Some(text) = request(path, "host", &(3..7), version)
    {
        assert!((7..=8).contains(&text.lines().count()) && text.ends_with("\r\n\r\n"));
    }
});
