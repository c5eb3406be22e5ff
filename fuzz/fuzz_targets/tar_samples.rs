//! Any bytes as a tar archive: samples lie within it, one behind the other, and parsing them gives columns or an error, the same
//! on every run, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::core::columns::Records;
use penstock_core::core::dtype::Dtype;
use penstock_core::records::framing::Progress;
use penstock_core::records::tar::parse::{Column, Parser, Target, members};
use penstock_core::records::tar::{index, npy};

fuzz_target!(|data: &[u8]| {
    try_all(data);
    try_all(&with_sums(data));
});

/// The bytes with the sum of everything that looks like a header made right, so that what lies behind it is tried too.
fn with_sums(data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    for block in data.chunks_exact_mut(512).filter(|block| &block[257..262] == b"ustar") {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    data
}

fn try_all(data: &[u8]) {
    let _ = npy::parse(data);
    let found = index::find_samples(&mut &data[..], 1 << 20, &Progress::default());
    let (start, lengths) = match found {
        Ok(samples) => (samples.start, samples.lengths),
        Err(_) => (0, vec![data.len() as i64]),
    };
    assert!(start + lengths.iter().sum::<i64>() <= data.len() as i64);
    let offset: Vec<i64> = lengths.iter().scan(start, |at, length| Some(std::mem::replace(at, *at + length))).collect();
    let column = |extension: &str, target| Column {
        extensions: vec![extension.to_owned(), "bin".to_owned()],
        target,
        expected: String::new(),
        default: None,
    };
    let parsers = [
        column("jpg", Target::Spans),
        column("", Target::Key),
        column("txt", Target::Texts { text: true }),
        column("cls", Target::Number { dtype: Dtype::Uint8 }),
        column("npy", Target::Array { dtype: Dtype::Int16, shape: vec![Some(2), Some(3)] }),
        column("npy", Target::Array { dtype: Dtype::Float32, shape: vec![None, Some(2)] }),
    ]
    .map(|column| Parser::new(vec![column], 1 << 20));
    for (&offset, &length) in offset.iter().zip(&lengths) {
        let _ = members(&data[offset as usize..(offset + length) as usize]);
        let records = Records { buffers: &[data], which: &[0], offset: &[offset], length: &[length] };
        for parser in &parsers {
            let mut outs = [0, 1].map(|_| vec![0; parser.columns()[0].target.form().row_bytes()]);
            let [first, again] = outs.each_mut().map(|out| parser.parse(records, vec![out], None));
            assert_eq!(first, again);
            assert!(first.is_err() || outs[0] == outs[1]);
        }
    }
}
