//! Any bytes as a Parquet file's footer, as a page index and as the header of a page: reading ends, what is found is within its bounds, and a
//! footer of a part of the file is a footer again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::records::parquet::footer::Footer;
use penstock_core::records::parquet::page_header::Page;
use penstock_core::records::parquet::page_index::{Bounds, Pages};
use penstock_core::records::parquet::rewrite::Part;

fuzz_target!(|data: &[u8]| {
    let names: Vec<Vec<String>> = ["id", "text", "list", "box"]
        .iter()
        .map(|name| vec![(*name).to_owned()])
        .collect();
    if let Ok(footer) = Footer::read(data, &names) {
        assert!(
            footer
                .groups
                .iter()
                .all(|group| group.rows >= 0 && group.chunks.len() == footer.leaves.len())
        );
        for (number, group) in footer.groups.iter().enumerate() {
            for (leaf, chunk) in group.chunks.iter().enumerate() {
                if let Some((begin, end)) = chunk.pages() {
                    assert!(0 < begin && begin < end);
                }
                let part = Part {
                    leaf,
                    values: 1,
                    dictionary: None,
                    data: 4,
                    packed: 9,
                    unpacked: 9,
                };
                let made = footer.of_part(data, number, 1, &[part], b"schema").unwrap();
                let small = Footer::read(&made, &names).unwrap();
                assert_eq!(small.leaves.len(), 1);
                assert_eq!(small.leaves[0].path, footer.leaves[leaf].path);
            }
        }
    }
    if let Ok(pages) = Pages::read(data, 60, (4, 1000)) {
        assert_eq!(pages.length.iter().sum::<i64>(), 996);
        assert!(pages.first_row.iter().all(|&row| (0..60).contains(&row)));
    }
    if let Ok(bounds) = Bounds::read(data, 3) {
        assert!(bounds.null.len() == 3 && bounds.low.len() == 3 && bounds.high.len() == 3);
    }
    if let Ok(page) = Page::read(data) {
        assert!(page.values >= 0 && page.unpacked >= 0);
    }
});
