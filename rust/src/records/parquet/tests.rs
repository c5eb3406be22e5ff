//! What is written can be read again, and nothing that is read ends the process.

use super::compact::{BINARY, INT, LONG, Reader, STRUCT, Writer};
use super::footer::Footer;
use super::page_header::Page;
use super::page_index::{Bounds, Pages};
use super::rewrite::Part;

/// A file of two columns, `box.left` (plain numbers) and `box.right` (texts), in one row group of 7 rows.
fn footer() -> Vec<u8> {
    let mut to = Writer::default();
    to.begin();
    to.list(2, STRUCT, 4);
    for (name, children, kind) in [("schema", 1, None), ("box", 2, None), ("left", 0, Some(2)), ("right", 0, Some(6))] {
        to.begin();
        if let Some(kind) = kind {
            to.number(1, INT, kind);
        }
        to.bytes(4, name.as_bytes());
        if children > 0 {
            to.number(5, INT, children);
        }
        to.end();
    }
    to.list(4, STRUCT, 1);
    to.begin();
    to.list(1, STRUCT, 2);
    for (name, kind) in [("left", 2), ("right", 6)] {
        to.begin();
        to.field(3, STRUCT);
        to.begin();
        to.number(1, INT, kind);
        to.list(2, INT, 1);
        to.zigzag(0);
        to.list(3, BINARY, 2);
        to.text(b"box");
        to.text(name.as_bytes());
        to.number(7, LONG, 90);
        to.number(9, LONG, 10);
        to.end();
        to.number(4, LONG, 200);
        to.number(5, INT, 20);
        to.end();
    }
    to.number(3, LONG, 7);
    to.end();
    to.end();
    to.finish()
}

fn names(path: &[&str]) -> Vec<Vec<String>> {
    vec![path.iter().map(|&name| name.to_owned()).collect()]
}

#[test]
fn a_part_has_the_leaves_that_were_asked_for() {
    let data = footer();
    let whole = Footer::read(&data, &names(&["box"])).unwrap();
    assert_eq!(whole.leaves.len(), 2);
    assert_eq!(whole.groups[0].rows, 7);
    assert_eq!(whole.groups[0].chunks[1].pages(), Some((10, 100)));
    let part = Part { leaf: 1, values: 3, dictionary: Some(4), data: 9, packed: 30, unpacked: 40 };
    let made = whole.of_part(&data, 0, 3, &[part], b"schema").unwrap();
    let small = Footer::read(&made, &names(&["box"])).unwrap();
    assert_eq!(small.leaves.iter().map(|leaf| leaf.path.join(".")).collect::<Vec<_>>(), ["box.right"]);
    let chunk = &small.groups[0].chunks[0];
    assert_eq!((small.groups[0].rows, chunk.values, chunk.dictionary, chunk.packed), (3, 3, Some(4), 30));
    assert!(whole.of_part(&data, 1, 3, &[part], b"").is_err());
    assert!(whole.of_part(&data, 0, 3, &[part, part], b"").is_err());
    assert!(whole.of_part(&data, 0, 3, &[Part { leaf: 2, ..part }], b"").is_err());
}

#[test]
fn every_truncation_of_a_footer_is_told() {
    let data = footer();
    for end in 0..data.len() {
        assert!(Footer::read(&data[..end], &names(&["box"])).is_err(), "cut to {end} bytes");
    }
    assert_eq!(Footer::read(&data, &names(&["nope"])).unwrap().leaves, []);
}

#[test]
fn columns_come_before_row_groups() {
    let mut to = Writer::default();
    to.begin();
    to.list(4, STRUCT, 1);
    to.begin();
    to.list(1, STRUCT, 0);
    to.number(3, LONG, 7);
    to.end();
    to.end();
    let mut data = to.finish();
    data.pop();
    data.extend([0x09, 0x04]); // field 2 again, with its number in full
    data.extend(&footer()[1..]);
    assert!(Footer::read(&data, &names(&["box"])).is_err());
}

#[test]
fn flipped_bits_end_nothing() {
    let data = footer();
    for bit in 0..data.len() * 8 {
        let mut flipped = data.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let _ = Footer::read(&flipped, &names(&["box"]));
        let _ = Pages::read(&flipped, 7, (0, 7));
        let _ = Bounds::read(&flipped, 1);
        let _ = Page::read(&flipped);
    }
}

fn pages(places: &[(i64, i64, i64)]) -> Vec<u8> {
    let mut to = Writer::default();
    to.begin();
    to.list(1, STRUCT, places.len());
    for &(offset, length, first_row) in places {
        to.begin();
        to.number(1, LONG, offset);
        to.number(2, INT, length);
        to.number(3, LONG, first_row);
        to.end();
    }
    to.end();
    to.finish()
}

#[test]
fn pages_are_all_of_a_column() {
    let read = |places: &[_]| Pages::read(&pages(places), 7, (10, 100));
    assert_eq!(read(&[(10, 40, 0), (50, 50, 4)]).unwrap().first_row, [0, 4]);
    let wrong: [&[_]; 8] = [
        &[],
        &[(10, 90, 1)],
        &[(10, 40, 0), (51, 49, 4)],
        &[(10, 40, 0), (50, 49, 4)],
        &[(10, 40, 0), (50, 50, 7)],
        &[(10, 40, 4), (50, 50, 0)],
        &[(10, 0, 0), (10, 90, 4)],
        &[(10, i64::MAX, 0), (50, 50, 4)],
    ];
    for places in wrong {
        assert!(read(places).is_err(), "{places:?}");
    }
}

#[test]
fn numbers_come_back() {
    let numbers = [0, -1, 1, 63, -64, 64, i64::MAX, i64::MIN];
    let mut to = Writer::default();
    to.begin();
    for (field, &number) in (1..).zip(&numbers) {
        to.number(field, LONG, number);
    }
    to.list(20, LONG, 20);
    (0..20).for_each(|number| to.zigzag(number));
    to.end();
    let data = to.finish();
    let (mut found, mut list) = (Vec::new(), Vec::new());
    let mut reader = Reader::new(&data);
    let read = reader.fields(|reader, number, kind| {
        if number == 20 {
            list = reader.numbers(kind, LONG)?;
        } else {
            found.push(reader.number(kind)?);
        }
        Ok(())
    });
    assert_eq!(read, Ok(()));
    assert_eq!(found, numbers);
    assert_eq!(list, (0..20).collect::<Vec<_>>());
}
