use proptest::prelude::*;

use super::*;
use crate::records::json::scan::{Cursor, Number};

fn column(path: &str, target: Target, default: Option<&[u8]>) -> Column {
    let path = path.split('.').map(str::to_owned).collect();
    Column { path, target, expected: "something else".to_owned(), default: default.map(<[u8]>::to_vec) }
}

fn parse(lines: &[&str], columns: Vec<Column>) -> Result<(Vec<Filled>, Vec<Vec<u8>>), String> {
    let parser = Parser::new(columns, 100);
    let buffers: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    let which: Vec<i64> = (0..lines.len() as i64).collect();
    let offset = vec![0; lines.len()];
    let length: Vec<i64> = lines.iter().map(|line| line.len() as i64).collect();
    let records = Records { buffers: &buffers, which: &which, offset: &offset, length: &length };
    let mut outs: Vec<Vec<u8>> = parser.row_bytes().map(|bytes| vec![0; bytes * lines.len()]).collect();
    let filled = parser.parse(records, outs.iter_mut().map(Vec::as_mut_slice).collect(), None);
    filled.map(|filled| (filled, outs)).map_err(|failure| format!("{}: {}", failure.row, failure.found))
}

fn error(line: &str, target: Target) -> String {
    parse(&[line], vec![column("x", target, None)]).unwrap_err()
}

const INT: Target = Target::Fixed { dtype: Dtype::Int64, shape: vec![] };
const FLOATS: Target = Target::Ragged { dtype: Dtype::Float64, shape: vec![] };

#[test]
fn values_of_every_kind() {
    let lines = [
        r#" {"skip": {"x": [1, {"y": "}"}]}, "x": -7, "\u0074": "aé\n\ud83d\ude00", "l": [1, 2.5e0], "o": {"b": true, "r": [ 1 ]}} "#,
        r#"{"x":9223372036854775807,"t":"","l":[],"o":{"b":false,"r":null}}"#,
    ];
    let columns = vec![
        column("x", INT, None),
        column("t", Target::Text, None),
        column("l", FLOATS, None),
        column("o.b", Target::Fixed { dtype: Dtype::Bool, shape: vec![] }, None),
        column("o.r", Target::Raw, Some(b"none")),
    ];
    let (filled, outs) = parse(&lines, columns).unwrap();
    assert_eq!(outs[0], [(-7_i64).to_ne_bytes(), i64::MAX.to_ne_bytes()].concat());
    let text = "aé\n😀".as_bytes().to_vec();
    let ends = vec![0, text.len() as i64, text.len() as i64];
    assert_eq!(filled[1], Filled::Texts { data: text, ends, offsets: vec![0] });
    let values = [1_f64.to_ne_bytes(), 2.5_f64.to_ne_bytes()].concat();
    assert_eq!(filled[2], Filled::Ragged { values, offsets: vec![0, 2, 2] });
    assert_eq!(outs[3], [1, 0]);
    assert_eq!(filled[4], Filled::Texts { data: b"[ 1 ]none".to_vec(), ends: vec![0, 5, 9], offsets: vec![0] });
}

#[test]
fn what_is_wrong_is_told() {
    for (line, wanted) in [
        ("", "byte 0 of the line: not JSON: the line is no object"),
        ("[1]", "the line is no object"),
        (r#"{"x": 1"#, "byte 7 of the line: not JSON: a comma or a closing bracket"),
        (r#"{"x": 1} 2"#, "byte 9 of the line: not JSON: something follows"),
        (r#"{"x": 1, "x": 2}"#, "byte 14 of the line: the key \"x\" occurs twice"),
        (r#"{"x": "1"}"#, "\"x\" is text, expected"),
        (r#"{"x": 1.0}"#, "a number that something else cannot hold"),
        (r#"{"x": 9223372036854775808}"#, "a number that something else cannot hold"),
        (r#"{"x": null}"#, "\"x\" is null"),
        (r#"{"y": 1}"#, "the key \"x\" is missing"),
        (r#"{"x": 01}"#, "a number that begins with 0"),
        (r#"{"y": tru}"#, "a value is missing"),
        (r#"{"y": "\x"}"#, "byte 7 of the line: not JSON: an escape"),
        ("{\"y\": \"a\tb\"}", "byte 8 of the line: not JSON: a control character"),
        (r#"{"y": [1, ]}"#, "a value is missing"),
        (r#"{"y": "#, "a value is missing"),
        (r#"{"y": "a"#, "byte 6 of the line: not JSON: a string is not closed"),
    ] {
        let found = error(line, INT);
        assert!(found.contains(wanted), "{line}: {found}");
    }
    assert!(error(r#"{"x": "\ud800"}"#, Target::Text).contains("half a surrogate pair"));
    assert!(error(r#"{"x": [1]}"#, Target::Fixed { dtype: Dtype::Int8, shape: vec![2] }).contains("1 values"));
    assert!(error(r#"{"x": [300]}"#, Target::Fixed { dtype: Dtype::Uint8, shape: vec![1] }).contains("cannot hold"));
    assert!(error(&format!("{{\"x\": [{}]}}", ["1"; 101].join(",")), FLOATS).contains("more than 100"));
    assert!(error(&format!("{{\"y\": {}", "[".repeat(100_000)), INT).contains("nested deeper"));
}

#[test]
fn what_no_float_holds() {
    assert!(error(r#"{"x": 1e999}"#, Target::Fixed { dtype: Dtype::Float64, shape: vec![] }).contains("cannot hold"));
    assert!(error(r#"{"x": [-1e999]}"#, FLOATS).contains("cannot hold"));
}

#[test]
fn what_is_no_object_lacks_no_key() {
    let inner = || Column { path: vec!["x".into(), "y".into()], ..column("x", INT, Some(&7_i64.to_ne_bytes())) };
    for line in [r#"{"x": 5}"#, r#"{"x": [{"y": 1}]}"#, r#"{"x": "y"}"#, r#"{"x": true}"#] {
        assert!(parse(&[line], vec![inner()]).unwrap_err().contains("where an object belongs"), "{line}");
    }
    for line in ["{}", r#"{"x": null}"#, r#"{"x": {}}"#] {
        parse(&[line], vec![inner()]).unwrap();
    }
}

#[test]
fn words_for_what_is_no_number() {
    let (filled, _) = parse(&[r#"{"x": [NaN, Infinity, -Infinity]}"#], vec![column("x", FLOATS, None)]).unwrap();
    let Filled::Ragged { values, .. } = &filled[0] else { panic!() };
    let values: Vec<f64> = values.as_chunks::<8>().0.iter().map(|bytes| f64::from_ne_bytes(*bytes)).collect();
    assert!(values[0].is_nan());
    assert_eq!(values[1..], [f64::INFINITY, f64::NEG_INFINITY]);
}

proptest! {
    #[test]
    fn floats_are_read_exactly(value: f64) {
        if value.is_finite() {
            let number = Cursor::new(&format!("{value:e}")).number().unwrap();
            prop_assert_eq!(number, Number::Float(value));
        }
    }

    #[test]
    fn integers_are_read_exactly(value: i64) {
        prop_assert_eq!(Cursor::new(&value.to_string()).number().unwrap(), Number::Integer(i128::from(value)));
    }

    #[test]
    fn any_bytes_end_in_a_value_or_a_fault(line in "[{}\\[\\]\",:0-9a-z\\\\ .-]{0,40}") {
        let _ = parse(&[&line], vec![column("a", Target::Raw, None), column("b", Target::Text, None)]);
    }
}

#[test]
fn strings_end_where_they_do_at_every_length() {
    for length in 0..80 {
        let plain = "é".repeat(length / 3) + &"a".repeat(length - length / 3 * 2);
        for (tail, wanted) in
            [("", Some("")), ("\\n", Some("\n")), ("\\\"b", Some("\"b")), ("\u{1f}", None), ("\u{20}", Some(" "))]
        {
            for behind in ["}", "                                       }"] {
                let line = format!("{{\"x\": \"{plain}{tail}\"{behind}");
                let found = parse(&[&line], vec![column("x", Target::Text, None)]);
                match wanted {
                    Some(wanted) => {
                        let (filled, _) = found.unwrap();
                        let Filled::Texts { data, .. } = &filled[0] else { panic!() };
                        assert_eq!(data, (plain.clone() + wanted).as_bytes());
                    }
                    None => assert!(found.unwrap_err().contains(&format!("byte {} of the line", 7 + plain.len()))),
                }
            }
        }
    }
}

#[test]
fn objects_that_lead_to_columns_come_once() {
    let columns = || {
        vec![column("a.b", INT, Some(&[0; 8])), column("a.c", INT, Some(&[0; 8])), column("d.e.f", INT, Some(&[0; 8]))]
    };
    for wrong in
        [r#"{"a": {"b": 1}, "a": {"c": 2}}"#, r#"{"a": null, "a": {"b": 1}}"#, r#"{"d": {"e": {"f": 1}, "e": {}}}"#]
    {
        assert!(parse(&[wrong], columns()).unwrap_err().contains("an outer key of "), "{wrong}");
    }
    let right = [r#"{"a": {"b": 1, "c": 2}, "d": {"e": {"f": 3}}}"#, r#"{"a": {"b": 1}, "x": {}, "x": {}}"#];
    assert!(parse(&right, columns()).is_ok());
}
