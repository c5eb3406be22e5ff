use super::*;

fn of(data: &[u8], database: Option<&[u8]>) -> Result<Index, Trouble> {
    let read = |at: u64, out: &mut [u8]| {
        out.copy_from_slice(&data[at as usize..at as usize + out.len()]);
        Ok(())
    };
    index(read, data.len() as u64, database, 1 << 20, &Progress::default())
}

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(format!("../tests/golden/lmdb/{name}/data.mdb")).unwrap()
}

#[test]
fn records_come_in_the_order_of_their_keys() {
    let data = golden("plain");
    let found = of(&data, None).unwrap();
    assert_eq!(found.offset.len(), 40);
    assert!(found.keys.starts_with(b"0000"));
    for (row, (&offset, &length)) in found.offset.iter().zip(&found.length).enumerate() {
        let value = &data[offset as usize..][..length as usize];
        assert_eq!(value, vec![row as u8; row * row * 3]);
    }
}

#[test]
fn a_named_database_is_chosen() {
    let data = golden("named");
    let text = of(&data, None).unwrap_err().to_string();
    assert!(text.contains("it has the databases images, labels; choose one with database=…"), "{text}");
    assert_eq!(of(&data, Some(b"labels")).unwrap().offset.len(), 5);
    assert!(of(&data, Some(b"label")).unwrap_err().to_string().contains("no database \"label\""));
    assert_eq!(of(&golden("empty"), None).unwrap(), Index::default());
    assert!(of(&golden("several"), None).unwrap_err().to_string().contains("DUPSORT"));
}

#[test]
fn damage_is_an_error_or_leaves_places_inside_the_file() {
    let whole = golden("plain");
    for size in (0..whole.len()).step_by(97) {
        if let Ok(found) = of(&whole[..size], None) {
            assert_eq!(found.offset.len(), 40);
        }
    }
    for place in 0..whole.len().min(5 * 4096) {
        let mut data = whole.clone();
        data[place] ^= 1 << (place % 8);
        if let Ok(found) = of(&data, None) {
            let inside = found.offset.iter().zip(&found.length).all(|(at, length)| at + length <= data.len() as i64);
            assert!(inside, "byte {place}");
        }
    }
}
