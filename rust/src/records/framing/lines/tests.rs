use proptest::prelude::*;

use super::*;

const TEXT: Style = Style { blank: Blank::Kept, quoted: None, header: false };
const JSON: Style = Style { blank: Blank::White, quoted: None, header: false };
const CSV: Style = Style { blank: Blank::Empty, quoted: Some(b','), header: false };

fn records(bytes: &[u8], style: Style) -> Vec<&[u8]> {
    let found = index_bytes(bytes, 1 << 20, style, 1 << 30).unwrap();
    let mut at = found.start as usize;
    let cut = |length: &i64| {
        at += *length as usize;
        &bytes[at - *length as usize..at]
    };
    found.lengths.iter().map(cut).collect()
}

#[test]
fn text_keeps_empty_lines() {
    assert_eq!(records(b"a\n\r\n\nb", TEXT), [b"a\n".as_slice(), b"\r\n", b"\n", b"b"]);
    assert_eq!(records(b"\xEF\xBB\xBFa\n", TEXT), [b"a\n"]);
    assert!(records(b"", TEXT).is_empty());
}

#[test]
fn blank_lines_belong_to_their_neighbours() {
    assert_eq!(records(b"\n 1\n\t \r\n2\n\n", JSON), [b"\n 1\n".as_slice(), b"\t \r\n2\n\n"]);
    assert_eq!(records(b"1\n  ", JSON), [b"1\n  "]);
    assert!(records(b" \n\n", JSON).is_empty());
    assert_eq!(records(b"\n\r\na\n \n", CSV), [b"\n\r\na\n".as_slice(), b" \n"]);
}

#[test]
fn newlines_inside_quotes_end_nothing() {
    assert_eq!(records(b"\"a\nb\",1\n\"\"\"\n\",2", CSV), [b"\"a\nb\",1\n".as_slice(), b"\"\"\"\n\",2"]);
    assert_eq!(records(b"5\" pipe\nx\n", CSV), [b"5\" pipe\n".as_slice(), b"x\n"]);
    let open = index_bytes(b"a\n1,\"b\nc", 100, CSV, 100).unwrap_err();
    assert!(open.to_string().starts_with("record 1, byte 2: a quote is opened"));
}

#[test]
fn a_header_is_left_out() {
    let found = index_bytes(b"\n\"x\ny\"\n1\n2\n", 3, Style { header: true, ..CSV }, 100).unwrap();
    assert_eq!(found, Lines { start: 7, lengths: vec![2, 2] });
}

proptest! {
    #[test]
    fn parts_make_no_difference(
        bytes in proptest::collection::vec(prop::sample::select(b"a \t\r\n\n\",".to_vec()), 0..60), size in 1_usize..9,
    ) {
        for style in [TEXT, JSON, CSV, Style { quoted: None, ..CSV }, Style { header: true, ..CSV }] {
            let whole = index_bytes(&bytes, 1 << 20, style, 1 << 30);
            let parts = index_bytes(&bytes, size, style, 1 << 30);
            prop_assert_eq!(format!("{whole:?}"), format!("{parts:?}"));
        }
    }
}
