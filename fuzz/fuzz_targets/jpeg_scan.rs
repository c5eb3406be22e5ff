//! Whole files: AVX2 and scalar code agree, and a region equals the crop of the whole.
//! The last bytes choose scale, upsampling and region.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::core::geometry::Rect;
use penstock_core::jpeg::{DecodeOptions, Decoder, EntryPoints, Header, JpegError};

fn decode(data: &[u8], header: &Header, region: Rect, options: &DecodeOptions) -> Result<Vec<u8>, JpegError> {
    let mut out = Vec::new();
    Decoder::new().decode(data, header, region, options, &mut |_, rows| out.extend_from_slice(rows))?;
    Ok(out)
}

fuzz_target!(|data: &[u8]| {
    let Some((data, choice)) = data.split_last_chunk::<6>() else { return };
    let Ok(header) = Header::parse(data) else { return };
    let options = DecodeOptions {
        scale: 1 << (choice[0] & 3),
        fancy_upsampling: choice[0] & 4 == 0,
        allow_truncated: choice[0] & 8 == 0,
        max_pixels: 1 << 16,
        ..DecodeOptions::default()
    };
    let (width, height) = header.scaled_size(options.scale);
    let whole = decode(data, &header, header.whole(options.scale), &options);
    let scalar = decode(data, &header, header.whole(options.scale), &DecodeOptions { scalar: true, ..options });
    assert_eq!(whole, scalar);
    let Ok(whole) = whole else { return };
    let place = |choice: u8, all: u32| u32::from(choice) * (all - 1) / 255;
    let (x, y) = (place(choice[1], width), place(choice[2], height));
    let region =
        Rect { x, y, width: 1 + place(choice[3], width - x), height: 1 + place(choice[4], height - y) };
    let rows = (y..y + region.height).map(|y| &whole[(y * width + x) as usize * 3..][..region.width as usize * 3]);
    let expected: Vec<u8> = rows.flatten().copied().collect();
    // Skipping from restart marker to restart marker can see less damage, never more; with damage anything goes.
    let strict = decode(data, &header, header.whole(1), &DecodeOptions { max_pixels: 1 << 16, ..DecodeOptions::default() });
    if strict.is_ok() {
        assert!(decode(data, &header, region, &options) == Ok(expected.clone()));
        if let Ok(entries) = EntryPoints::build(data, &header, 1 + u32::from(choice[5] & 15)) {
            let options = DecodeOptions { entry_points: Some(&entries), ..options };
            assert!(decode(data, &header, region, &options) == Ok(expected));
        }
    }
});
