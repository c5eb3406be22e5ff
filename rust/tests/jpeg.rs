//! The JPEG decoder against libjpeg-turbo's digests, and against itself: regions, entry points, damaged files.

use std::path::PathBuf;

use penstock_core::core::geometry::Rect;
use penstock_core::jpeg::{DecodeOptions, Decoder, EntryPoints, Header, JpegError};

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/jpeg")
}

/// Lines "crc32 number name" of a list, with the file's bytes.
fn listed(list: &str) -> Vec<(u32, usize, String, Vec<u8>)> {
    let text = std::fs::read_to_string(directory().join(list)).unwrap();
    text.lines()
        .map(|line| {
            let mut words = line.split(' ');
            let crc = u32::from_str_radix(words.next().unwrap(), 16).unwrap();
            let number = words.next().unwrap().parse().unwrap();
            let name = words.next().unwrap().to_string();
            let data = std::fs::read(directory().join(&name)).unwrap();
            (crc, number, name, data)
        })
        .collect()
}

/// Images with a digest at full size.
fn images() -> Vec<(String, Vec<u8>)> {
    listed("digests.txt").into_iter().filter(|item| item.1 == 1).map(|item| (item.2, item.3)).collect()
}

fn decode(data: &[u8], region: Option<Rect>, options: &DecodeOptions) -> Result<Vec<u8>, JpegError> {
    let header = Header::parse(data)?;
    let region = region.unwrap_or_else(|| header.whole(options.scale));
    let (row_bytes, mut out, mut next) = (region.width as usize * 3, Vec::new(), 0);
    Decoder::new().decode(data, &header, region, options, &mut |first, rows| {
        assert_eq!(first, next);
        assert_eq!(rows.len() % row_bytes, 0);
        next += (rows.len() / row_bytes) as u32;
        out.extend_from_slice(rows);
    })?;
    assert_eq!(next, region.height);
    Ok(out)
}

fn crop(pixels: &[u8], width: u32, region: Rect) -> Vec<u8> {
    let row = |y: u32| &pixels[(y * width + region.x) as usize * 3..][..region.width as usize * 3];
    (region.y..region.y + region.height).flat_map(|y| row(y).to_vec()).collect()
}

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (((self.0 >> 32) * u64::from(limit)) >> 32) as u32
    }

    fn region(&mut self, width: u32, height: u32) -> Rect {
        let (x, y) = (self.below(width), self.below(height));
        Rect { x, y, width: 1 + self.below(width - x), height: 1 + self.below(height - y) }
    }
}

#[test]
fn whole_pictures_equal_libjpeg_turbo() {
    for (crc, scale, name, data) in listed("digests.txt") {
        for scalar in [false, true] {
            let options = DecodeOptions { scale: scale as u8, scalar, ..DecodeOptions::default() };
            let pixels = decode(&data, None, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(crc_fast::crc32_iso_hdlc(&pixels), crc, "{name} at 1/{scale}, scalar: {scalar}");
        }
    }
}

#[test]
fn what_is_not_baseline_is_left_to_others() {
    let lines = std::fs::read_to_string(directory().join("other.txt")).unwrap();
    for name in lines.lines().map(|line| line.split_once(' ').unwrap().1) {
        let data = std::fs::read(directory().join(name)).unwrap();
        assert!(!Header::parse(&data).unwrap().is_supported(), "{name}");
        let result = decode(&data, None, &DecodeOptions::default());
        assert!(matches!(result, Err(JpegError::Unsupported { .. })), "{name}: {result:?}");
    }
}

#[test]
fn regions_equal_crops_of_the_whole() {
    let mut random = Random(1);
    for (name, data) in images() {
        let header = Header::parse(&data).unwrap();
        for (scale, fancy_upsampling) in [(1, true), (1, false), (2, true), (4, true), (8, true)] {
            let (width, height) = header.scaled_size(scale);
            let options = DecodeOptions { scale, fancy_upsampling, ..DecodeOptions::default() };
            let whole = decode(&data, None, &options).unwrap();
            for _ in 0..12 {
                let region = random.region(width, height);
                let entries = match EntryPoints::build(&data, &header, 1 + random.below(9)) {
                    Ok(entries) => Some(entries),
                    Err(error) => {
                        assert!(name.starts_with("separate"), "{name}: {error}");
                        None
                    }
                };
                let expected = crop(&whole, width, region);
                for entry_points in [None, entries.as_ref()] {
                    let options = DecodeOptions { entry_points, ..options };
                    let found = decode(&data, Some(region), &options).unwrap();
                    assert!(found == expected, "{name} at 1/{scale}, {region:?}, entries {}", entry_points.is_some());
                }
            }
        }
    }
}

#[test]
fn a_decoder_can_be_used_again_for_other_pictures() {
    let (mut decoder, mut random) = (Decoder::new(), Random(2));
    let images = images();
    for _ in 0..300 {
        let (name, data) = &images[random.below(images.len() as u32) as usize];
        let header = Header::parse(data).unwrap();
        let mut out = Vec::new();
        let options = DecodeOptions::default();
        decoder.decode(data, &header, header.whole(1), &options, &mut |_, rows| out.extend_from_slice(rows)).unwrap();
        assert!(out == decode(data, None, &options).unwrap(), "{name}");
    }
}

#[test]
fn truncation_at_every_byte() {
    for (name, data) in images().into_iter().filter(|(name, _)| name.contains("33x67") || name.contains("17x17")) {
        let whole = decode(&data, None, &DecodeOptions::default()).unwrap();
        for cut in 0..data.len() {
            let lenient = DecodeOptions { allow_truncated: true, ..DecodeOptions::default() };
            match decode(&data[..cut], None, &DecodeOptions::default()) {
                Ok(pixels) => assert!(pixels == whole, "{name} cut at {cut}: other pixels without an error"),
                Err(JpegError::Truncated { offset, .. }) => assert!(offset <= cut, "{name} cut at {cut}"),
                Err(error) => panic!("{name} cut at {cut}: {error}"),
            }
            if Header::parse(&data[..cut]).is_ok() {
                assert_eq!(decode(&data[..cut], None, &lenient).unwrap().len(), whole.len());
            }
        }
    }
}

#[test]
fn cut_pictures_equal_pillow() {
    let options = DecodeOptions { allow_truncated: true, ..DecodeOptions::default() };
    for (crc, cut, name, data) in listed("truncated.txt") {
        let pixels = decode(&data[..cut], None, &options).unwrap();
        assert_eq!(crc_fast::crc32_iso_hdlc(&pixels), crc, "{name} cut at {cut}");
    }
}

#[test]
fn damaged_bytes_never_panic() {
    let mut random = Random(3);
    for (_, mut data) in images().into_iter().filter(|(_, data)| data.len() < 5000) {
        let intact = EntryPoints::build(&data, &Header::parse(&data).unwrap(), 2).ok();
        for _ in 0..60 {
            let at = random.below(data.len() as u32) as usize;
            let kept = std::mem::replace(&mut data[at], random.below(256) as u8);
            if let Ok(header) = Header::parse(&data) {
                let entries = EntryPoints::build(&data, &header, 3).ok();
                for entry_points in [None, entries.as_ref(), intact.as_ref()] {
                    let options = DecodeOptions {
                        entry_points,
                        max_pixels: 1 << 18,
                        allow_truncated: random.below(2) == 0,
                        scale: 1 << random.below(4),
                        ..DecodeOptions::default()
                    };
                    let _ = decode(&data, None, &options);
                }
            }
            if random.below(3) > 0 {
                data[at] = kept;
            }
        }
    }
}

#[test]
fn entry_points_keep_their_meaning_when_stored() {
    for (name, data) in images().into_iter().filter(|(name, _)| !name.starts_with("separate")) {
        let header = Header::parse(&data).unwrap();
        let entries = EntryPoints::build(&data, &header, 4).unwrap();
        let bytes = entries.to_bytes();
        assert_eq!(EntryPoints::from_bytes(&bytes).unwrap(), entries, "{name}");
        for cut in 0..bytes.len() {
            assert!(EntryPoints::from_bytes(&bytes[..cut]).is_err());
        }
    }
}

#[test]
fn colours_apart_equal_colours_together() {
    let mut random = Random(5);
    for (name, data) in images() {
        let header = Header::parse(&data).unwrap();
        for scalar in [false, true] {
            let (width, height) = header.scaled_size(1);
            let region = random.region(width, height);
            let options = DecodeOptions { scalar, ..DecodeOptions::default() };
            let mut out = Vec::new();
            let columns = region.width as usize;
            let mut sink = |[red, green, blue]: [&[u8]; 3]| {
                (0..columns).for_each(|x| out.extend_from_slice(&[red[x], green[x], blue[x]]));
            };
            Decoder::new().decode_colours(&data, &header, region, &options, &mut sink).unwrap();
            assert_eq!(out, decode(&data, Some(region), &options).unwrap(), "{name} {region:?}");
        }
    }
}

#[test]
fn impossible_requests_are_errors() {
    let (_, data) = images().into_iter().find(|(name, _)| name.contains("33x67")).unwrap();
    let header = Header::parse(&data).unwrap();
    for region in [
        Rect { x: 0, y: 0, width: 0, height: 1 },
        Rect { x: 0, y: 60, width: 1, height: 8 },
        Rect { x: 33, y: 0, width: 1, height: 1 },
        Rect { x: u32::MAX, y: 0, width: 2, height: 1 },
    ] {
        let result = decode(&data, Some(region), &DecodeOptions::default());
        assert!(matches!(result, Err(JpegError::Request { .. })), "{region:?}");
    }
    let small = DecodeOptions { max_pixels: 33 * 66, ..DecodeOptions::default() };
    assert!(matches!(decode(&data, None, &small), Err(JpegError::TooLarge { .. })));
    let mut progressive = header.clone();
    progressive.frame_marker = 0xC2;
    assert!(!progressive.is_supported());
    let whole = header.whole(1);
    let result = Decoder::new().decode(&data, &progressive, whole, &DecodeOptions::default(), &mut |_, _| ());
    assert!(matches!(result, Err(JpegError::Unsupported { .. })));
}
