//! A stored index: any bytes give an index or an error, an index survives storing, and a wrong index does no harm.
//! The first two bytes are the length of the index; the picture follows it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::jpeg::{DecodeOptions, Decoder, EntryPoints, Header};

fuzz_target!(|data: &[u8]| {
    let Some((len, rest)) = data.split_first_chunk::<2>() else { return };
    let (index, picture) = rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len()));
    let Ok(entries) = EntryPoints::from_bytes(index) else { return };
    assert_eq!(EntryPoints::from_bytes(&entries.to_bytes()).as_ref(), Ok(&entries));
    let Ok(header) = Header::parse(picture) else { return };
    let mut region = header.whole(1);
    (region.x, region.y) = (region.width / 2, region.height / 2);
    (region.width, region.height) = (region.width - region.x, region.height - region.y);
    let options = DecodeOptions { entry_points: Some(&entries), max_pixels: 1 << 16, ..DecodeOptions::default() };
    let _ = Decoder::new().decode(picture, &header, region, &options, &mut |_, _| ());
});
