//! Any bytes as an Example: columns or an error, the same on every run, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::core::dtype::Dtype;
use penstock_core::records::example::infer::infer;
use penstock_core::records::example::{Column, Parser, Records, Target};

fuzz_target!(|data: &[u8]| {
    let frame = [&(data.len() as u64).to_le_bytes()[..], &[0; 4], data, &[0; 4]].concat();
    let buffers: [&[u8]; 1] = [&frame];
    let length = [frame.len() as i64];
    let records = Records { buffers: &buffers, which: &[0], offset: &[0], length: &length };
    let _ = infer(records, false);
    let targets = [
        Target::Fixed { dtype: Dtype::Float32, values: 2 },
        Target::Fixed { dtype: Dtype::Uint8, values: 2 },
        Target::Ragged { dtype: Dtype::Int64, step: 1 },
        Target::Ragged { dtype: Dtype::Float16, step: 2 },
        Target::Spans,
        Target::Texts { values: None, text: true },
        Target::Steps { dtype: Dtype::Int64, values: 2 },
        Target::StepTexts { text: true },
        Target::Nested { dtype: Dtype::Float32 },
        Target::NestedTexts { text: false },
    ];
    for (number, target) in targets.into_iter().enumerate() {
        let bytes = match target {
            Target::Fixed { dtype, values } => values * dtype.size(),
            _ => 0,
        };
        let column = Column { feature: usize::from(number > 5), target, expected: String::new(), default: None };
        let parser = Parser::new(vec!["x".to_owned()], vec!["x".to_owned()], vec![column], false, 1 << 20);
        let mut out = vec![0; bytes];
        let first = parser.parse(records, vec![&mut out], None);
        let mut again = vec![0; bytes];
        assert_eq!(first, parser.parse(records, vec![&mut again], None));
        assert!(first.is_err() || out == again);
    }
});
