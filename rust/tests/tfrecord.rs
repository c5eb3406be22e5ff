//! TFRecord frames and Examples under damage: errors, never panics; and the promise of the first failing row.

use penstock_core::core::crc32c::masked;
use penstock_core::core::dtype::Dtype;
use penstock_core::core::errors::Trouble;
use penstock_core::records::example::infer::infer;
use penstock_core::records::example::{Column, Filled, Parser, Records, Target};
use penstock_core::records::framing::tfrecord;
use proptest::prelude::*;

fn block(field: u8, content: &[u8]) -> Vec<u8> {
    assert!(content.len() < 128);
    [&[field << 3 | 2, content.len() as u8][..], content].concat()
}

fn example(values: &[u8]) -> Vec<u8> {
    block(1, &block(1, &[block(1, b"x"), block(2, &block(3, &block(1, values)))].concat()))
}

fn frame(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &masked(&length).to_le_bytes(), data, &masked(data).to_le_bytes()].concat()
}

fn walk(file: &[u8]) -> Result<Vec<u64>, Trouble> {
    let mut lengths = Vec::new();
    let read = |at: u64, out: &mut [u8]| {
        out.copy_from_slice(&file[at as usize..at as usize + out.len()]);
        Ok(())
    };
    tfrecord::walk_frames(file.len() as u64, 1 << 30, read, |length| {
        lengths.push(length);
        Ok(())
    })?;
    Ok(lengths)
}

fn parser(target: Target) -> Parser {
    let column = Column { feature: 0, target, expected: "int64".to_owned(), default: None };
    Parser::new(vec!["x".to_owned()], Vec::new(), vec![column], true, 1 << 20)
}

fn one<'a>(buffers: &'a [&'a [u8]], length: &'a [i64]) -> Records<'a> {
    Records { buffers, which: &[0], offset: &[0], length }
}

#[test]
fn truncation_at_every_byte_is_told() {
    let records = [frame(&example(&[1])), frame(&[7; 70_000]), frame(&[]), frame(&[8; 300])];
    let file = records.concat();
    let mut ends = vec![0];
    for record in &records {
        ends.push(ends[ends.len() - 1] + record.len());
    }
    assert_eq!(walk(&file).unwrap(), records.iter().map(|record| record.len() as u64).collect::<Vec<_>>());
    for size in (0..file.len()).filter(|size| *size < 200 || size % 97 == 0 || file.len() - size < 700) {
        assert_eq!(walk(&file[..size]).is_ok(), ends.contains(&size), "{size} bytes");
    }
}

#[test]
fn the_first_failing_row_is_told_whatever_the_threads() {
    let good = frame(&example(&[5]));
    let bad = frame(&example(&[5, 6]));
    let buffers: [&[u8]; 2] = [&good, &bad];
    let which: Vec<i64> = (0..5_000).map(|row| i64::from(row % 1_111 == 1_110)).collect();
    let length: Vec<i64> = which.iter().map(|&which| buffers[which as usize].len() as i64).collect();
    let offset = vec![0; which.len()];
    let records = Records { buffers: &buffers, which: &which, offset: &offset, length: &length };
    let parser = parser(Target::Fixed { dtype: Dtype::Int64, values: 1 });
    for threads in [1, 2, 7] {
        let pool = penstock_core::core::pool::shared(threads).unwrap();
        let mut out = vec![0; 8 * which.len()];
        let failure = parser.parse(records, vec![&mut out], Some(&pool)).unwrap_err();
        assert_eq!(failure.row, 1_110);
        assert_eq!(failure.found, "feature \"x\": found 2 values, expected int64");
    }
}

proptest! {
    #[test]
    fn a_flipped_bit_is_always_told(values in proptest::collection::vec(0_u8..128, 1..20), bit in any::<prop::sample::Index>()) {
        let whole = frame(&example(&values));
        let bit = bit.index(8 * whole.len());
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let parser = parser(Target::Ragged { dtype: Dtype::Int64, step: 1 });
        let parsed = parser.parse(one(&[&flipped], &[whole.len() as i64]), vec![&mut []], None);
        // The sum of the length is the index's to check: both together leave no bit out.
        prop_assert!(parsed.is_err() || walk(&flipped).is_err());
    }

    #[test]
    fn any_bytes_are_columns_or_an_error(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        let whole = frame(&data);
        let buffers: [&[u8]; 1] = [&whole];
        let length = [whole.len() as i64];
        let _ = infer(one(&buffers, &length), true);
        let mut wrapped = block(1, &block(1, &data[..data.len().min(100)]));
        wrapped.extend(&data);
        let whole = frame(&wrapped);
        let _ = parser(Target::Spans).parse(one(&[&whole], &[whole.len() as i64]), vec![&mut []], None);
    }

    #[test]
    fn integers_come_back(values in proptest::collection::vec(any::<i64>(), 0..9)) {
        let mut bytes = Vec::new();
        for &value in &values {
            let mut rest = value.cast_unsigned();
            while rest >= 0x80 {
                bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
        }
        let whole = frame(&example(&bytes));
        let parser = parser(Target::Ragged { dtype: Dtype::Int64, step: 1 });
        let filled = parser.parse(one(&[&whole], &[whole.len() as i64]), vec![&mut []], None).unwrap();
        let wanted = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        prop_assert_eq!(filled, vec![Filled::Ragged { values: wanted, offsets: vec![0, values.len() as i64] }]);
    }
}
