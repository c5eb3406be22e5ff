//! Heads of answers: well-formed, odd and hostile ones.

use proptest::prelude::*;

use super::super::head::{Head, request};

/// The head of an answer with these lines.
fn parsed(version: &str, lines: &[u8]) -> Option<Head> {
    let head = [format!("HTTP/{version} 206 Partial\r\n").as_bytes(), lines, b"\r\n"].concat();
    Head::parse(&head).ok().flatten()
}

#[test]
fn what_a_head_says() {
    let found =
        parsed("1.1", b"Content-Length: 6\r\nCONTENT-RANGE: bytes 10-15/36\r\nETag: W/\"a\"\r\nx: \xff\r\n").unwrap();
    assert_eq!((found.status, found.length, found.keeps), (206, Some(6), true));
    assert_eq!((found.range, &found.etag[..]), (Some((10..16, 36)), "W/\"a\""));
    assert!(!parsed("1.0", b"").unwrap().keeps);
    assert!(!parsed("1.1", b"Connection: x, Close\r\n").unwrap().keeps);
    assert_eq!(parsed("1.1", b"content-length: 6\r\ncontent-length: 6\r\n").unwrap().length, Some(6));
    for order in [["transfer-encoding: chunked", "content-length: 6"], ["content-length: 6", "transfer-encoding: x"]] {
        assert_eq!(parsed("1.1", format!("{}\r\n", order.join("\r\n")).as_bytes()).unwrap().length, None);
    }
    for range in
        ["10-15/36", "bytes */36", "bytes 10-15/*", "bytes 10-/36", "bytes +1-2/36", "bytes 0-18446744073709551615/36"]
    {
        assert_eq!(parsed("1.1", format!("content-range: {range}\r\n").as_bytes()).unwrap().range, None, "{range}");
    }
    let interim = Head::parse(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 206 .\r\n\r\n").unwrap().unwrap();
    assert_eq!((interim.status, interim.size), (100, 25));
}

#[test]
fn heads_that_may_mean_two_things_are_none() {
    for lines in [
        &b"content-length: 6\r\ncontent-length: 7\r\n"[..],
        b"content-length: 5, 5\r\n",
        b"content-length: +5\r\n",
        b"content-length: -5\r\n",
        b"content-length:\r\n",
        b"content-length: 18446744073709551616\r\n",
        b"content-length: \xff\r\n",
        b"content-length: 5\xb2\r\n",
        b"transfer-encoding: \xff\r\ncontent-length: 6\r\n",
        b"connection: close\xff\r\n",
        b"content-range: bytes 0-5/36\r\ncontent-range: bytes 1-6/36\r\n",
        b"etag: \"a\"\r\netag: \"b\"\r\n",
        b"content-length: 6\r\n 7\r\n",
        b"content-length : 6\r\n",
        b"content-length\r\n",
    ] {
        assert_eq!(parsed("1.1", lines), None, "{}", String::from_utf8_lossy(lines));
    }
    assert!(parsed("1.1", "a: b\r\n".repeat(64).as_bytes()).is_some());
    assert!(parsed("1.1", "a: b\r\n".repeat(65).as_bytes()).is_none());
    assert!(parsed("2.0", b"").is_none());
}

#[test]
fn a_request_stays_in_its_lines() {
    let text = request("/a%20b?c", "host:80", &(10..16), "\"a\"").unwrap();
    assert!(text.starts_with("GET /a%20b?c HTTP/1.1\r\nhost: host:80\r\nrange: bytes=10-15\r\n"));
    assert!(text.contains("\r\naccept-encoding: identity\r\n") && text.ends_with("\r\nif-match: \"a\"\r\n\r\n"));
    for (path, host, etag) in [
        ("/ ", "host", ""),
        ("/\r\nx: y", "host", ""),
        ("/", "ho\nst", ""),
        ("/", "host", "\r\n"),
        ("/", "host", "\nx\ny"),
    ] {
        assert_eq!(request(path, host, &(0..1), etag), None);
    }
}

#[test]
fn a_version_is_asked_for_by_what_can_match() {
    let date = "Sun, 22 Nov 2026 15:00:00 GMT";
    for (version, condition) in [
        ("\"a\"".to_owned(), "if-match: \"a\"\r\n".to_owned()),
        (format!("\n{date}"), format!("if-unmodified-since: {date}\r\n")),
        (format!("W/\"a\"\n{date}"), format!("if-unmodified-since: {date}\r\n")),
        ("W/\"a\"".to_owned(), String::new()),
        (String::new(), String::new()),
    ] {
        let text = request("/", "host", &(0..1), &version).unwrap();
        assert!(
            text.ends_with(&format!("\r\nuser-agent: penstock/{}\r\n{condition}\r\n", env!("CARGO_PKG_VERSION"))),
            "{text}"
        );
    }
    let found = |lines: &str| parsed("1.1", lines.as_bytes()).unwrap();
    let answer = found(&format!("etag: W/\"a\"\r\nlast-modified: {date}\r\n"));
    for version in [format!("\n{date}"), format!("W/\"a\"\n{date}"), "\"a\"".into(), String::new()] {
        assert!(answer.is_of(&version), "{version}");
    }
    for version in ["\nSun, 22 Nov 2026 15:00:01 GMT".into(), format!("W/\"b\"\n{date}"), "\"b\"".into()] {
        assert!(!answer.is_of(&version), "{version}");
    }
    assert!(!found("").is_of(&format!("\n{date}")));
}

/// Lines as a head has them, often almost right.
fn lines() -> impl Strategy<Value = Vec<u8>> {
    let name =
        prop::sample::select(vec!["content-length", "content-range", "etag", "transfer-encoding", "connection", "x"]);
    let value = prop_oneof![
        any::<u64>().prop_map(|number| number.to_string().into_bytes()),
        any::<[u64; 3]>().prop_map(|[first, last, size]| format!("bytes {first}-{last}/{size}").into_bytes()),
        prop::collection::vec(any::<u8>(), 0..12),
    ];
    let line = (name, value).prop_map(|(name, value)| [name.as_bytes(), b": ", &value, b"\r\n"].concat());
    prop::collection::vec(line, 0..6).prop_map(|lines| lines.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_a_head_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(Some(head)) = Head::parse(&bytes) {
            prop_assert!(head.size <= bytes.len());
        }
    }

    #[test]
    fn a_prefix_of_a_head_is_never_whole(lines in lines(), status in 0u16..1000) {
        let bytes = [format!("HTTP/1.1 {status:03} .\r\n").as_bytes(), &lines, b"\r\nbody"].concat();
        if let Ok(Some(head)) = Head::parse(&bytes) {
            for end in 0..head.size {
                prop_assert!(!matches!(Head::parse(&bytes[..end]), Ok(Some(_))));
            }
            prop_assert_eq!(Head::parse(&bytes[..head.size]), Ok(Some(head)));
        }
    }
}
