//! Any bytes as one line of JSON: a fault, or columns that fit the row.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::core::dtype::Dtype;
use penstock_core::records::example::{Filled, Records};
use penstock_core::records::json::{Column, Parser, Target};

fn column(path: &[&str], target: Target) -> Column {
    let path = path.iter().map(|&key| key.to_owned()).collect();
    Column { path, target, expected: String::new(), default: None }
}

fuzz_target!(|data: &[u8]| {
    let columns = vec![
        column(&["i"], Target::Fixed { dtype: Dtype::Int32, shape: vec![] }),
        column(&["m"], Target::Fixed { dtype: Dtype::Bfloat16, shape: vec![2, 1] }),
        column(&["r"], Target::Ragged { dtype: Dtype::Float64, shape: vec![] }),
        column(&["o", "t"], Target::Text),
        column(&["o", "w"], Target::Texts { values: None }),
        column(&["o"], Target::Raw),
    ];
    for column in columns {
        let parser = Parser::new(vec![Column { default: None, ..column }], 1 << 10);
        let mut out = vec![0; parser.row_bytes().sum()];
        let records = Records { buffers: &[data], which: &[0], offset: &[0], length: &[data.len() as i64] };
        let Ok(filled) = parser.parse(records, vec![&mut out], None) else { continue };
        match &filled[0] {
            Filled::Texts { data: text, ends, .. } => {
                assert!(std::str::from_utf8(text).is_ok());
                assert_eq!(ends.last(), Some(&(text.len() as i64)));
            }
            Filled::Ragged { values, offsets } => assert_eq!(values.len() as i64, 8 * offsets[1]),
            _ => {}
        }
    }
});
