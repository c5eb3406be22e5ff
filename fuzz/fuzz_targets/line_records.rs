//! Any bytes as lines: records cover the file without gaps, in whatever parts it is looked at. The first byte chooses what a record is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::records::framing::lines::{Blank, Style, index_bytes};

fuzz_target!(|data: &[u8]| {
    let Some((&choice, data)) = data.split_first() else { return };
    let style = Style {
        blank: [Blank::Kept, Blank::Empty, Blank::White][usize::from(choice) % 3],
        quoted: (choice & 0x40 != 0).then_some(b','),
        header: choice & 0x80 != 0,
    };
    let whole = index_bytes(data, data.len(), style, 1 << 20);
    let parts = index_bytes(data, usize::from(choice & 7) + 1, style, 1 << 20);
    assert_eq!(format!("{whole:?}"), format!("{parts:?}"));
    if let Ok(lines) = whole {
        assert!(lines.lengths.iter().all(|length| *length > 0));
        let end = lines.start + lines.lengths.iter().sum::<i64>();
        assert!(end as usize == data.len() || lines.lengths.is_empty());
    }
});
