//! The fast path (planes resized before their colours are converted): the same with all instructions, with and without
//! entry points, and for every way to the same samples; no panic on damaged files.

use std::path::PathBuf;
use std::sync::Arc;

use penstock_core::core::geometry::Rect;
use penstock_core::core::keys::Rng;
use penstock_core::image::emit::Format;
use penstock_core::image::filter::{Filter, Scaling};
use penstock_core::image::limits::Limits;
use penstock_core::image::mode::Mode;
use penstock_core::image::ops::{Fit, Op, Ops, RandomHorizontalFlip, RandomResizedCrop, RandomVerticalFlip, Resize};
use penstock_core::image::program::{Image, Program, Worker};
use penstock_core::image::simd::Level;
use penstock_core::jpeg::{DecodeOptions, Decoder, EntryPoints, Header};

/// The golden images that our decoder reads.
fn images() -> Vec<(PathBuf, Vec<u8>, Header)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/jpeg");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jpg"));
    paths.sort();
    let read = |path: PathBuf| {
        let data = std::fs::read(&path).ok()?;
        let header = Header::parse(&data).ok().filter(Header::is_supported)?;
        Some((path, data, header))
    };
    let found: Vec<_> = paths.into_iter().filter_map(read).collect();
    assert!(found.len() > 10, "only {} golden images", found.len());
    found
}

fn program(size: (u32, u32), filter: Filter, antialias: bool, is_crop: bool) -> Program {
    let scaling = Scaling { filter, antialias };
    let crop = RandomResizedCrop { size, scale: (0.01, 1.0), ratio: (0.5, 2.0), scaling };
    let resize = Resize { fit: Fit::Exact { height: size.0, width: size.1 }, scaling };
    let sized: Arc<dyn Op> = if is_crop { Arc::new(crop) } else { Arc::new(resize) };
    let ops: Ops = vec![
        (0, Arc::new(RandomVerticalFlip { p: 0.5 })),
        (1, Arc::new(RandomHorizontalFlip { p: 0.3 })),
        (2, sized),
        (3, Arc::new(RandomHorizontalFlip { p: 0.5 })),
        (4, Arc::new(RandomVerticalFlip { p: 0.3 })),
    ];
    Program {
        ops,
        apply_exif: false,
        fast: true,
        allow_truncated: false,
        mode: Mode::Rgb,
        is_strict: false,
        format: Format::pixels(Mode::Rgb, size.1, size.0),
        limits: Limits::default(),
    }
}

fn run(level: Level, program: &Program, image: Image<'_>, sample: i64) -> Option<Vec<u8>> {
    let mut out = vec![0; program.format.bytes()];
    program.run(&mut Worker::new(level, program.format), image, 1, sample, &mut out).ok().map(|()| out)
}

#[test]
fn instructions_and_entry_points_do_not_matter() {
    for (path, data, header) in images() {
        let index = EntryPoints::build(&data, &header, 3).ok().map(|index| index.to_bytes());
        for sample in 0..12 {
            let size = [(24, 31), (7, 5), (100, 67)][sample as usize % 3];
            let filter = [Filter::Bilinear, Filter::Bicubic][sample as usize % 2];
            let program = program(size, filter, sample % 5 > 0, sample > 2);
            let plain = Image::Encoded { data: &data, entry_points: None };
            let expected = run(Level::Scalar, &program, plain, sample);
            assert!(expected.is_some(), "{}", path.display());
            assert_eq!(run(Level::best(), &program, plain, sample), expected, "{}", path.display());
            let indexed = Image::Encoded { data: &data, entry_points: index.as_deref() };
            assert_eq!(run(Level::best(), &program, indexed, sample), expected, "{}", path.display());
        }
    }
}

#[test]
fn planes_of_a_region_are_those_of_the_whole() {
    let mut rng = Rng::new(5);
    let mut below = |limit: u32| rng.below(u64::from(limit)) as u32;
    for (path, data, header) in images() {
        for scale in [1, 2, 4, 8] {
            let (mut decoder, whole) = (Decoder::new(), header.whole(scale));
            let options = DecodeOptions { scale, ..Default::default() };
            let planes = header.planes(scale).unwrap();
            let mut all: Vec<Vec<Vec<u8>>> = vec![Vec::new(); planes.len()];
            decoder
                .decode_planes(&data, &header, whole, &options, &mut |row| {
                    assert_eq!((row.y, row.first_x), (all[row.component].len(), 0));
                    all[row.component].push(row.samples.to_vec());
                })
                .unwrap();
            assert!(all.iter().zip(&planes).all(|(rows, axes)| rows.len() == axes[1].samples as usize));
            let (x, y) = (below(whole.width), below(whole.height));
            let (width, height) = (1 + below(whole.width - x), 1 + below(whole.height - y));
            let region = Rect { x, y, width, height };
            let mut seen = vec![Vec::new(); planes.len()];
            decoder
                .decode_planes(&data, &header, region, &options, &mut |row| {
                    let axis = planes[row.component][0];
                    let times = axis.times / u32::from(scale);
                    let (first, last) = ((x / times) as usize, ((x + width - 1) / times) as usize);
                    let expected = &all[row.component][row.y][first..=last];
                    assert_eq!(&row.samples[first - row.first_x..=last - row.first_x], expected, "{}", path.display());
                    seen[row.component].push(row.y);
                })
                .unwrap();
            for (seen, axes) in seen.iter().zip(&planes) {
                let times = axes[1].times / u32::from(scale);
                assert!(*seen.first().unwrap() as u32 <= y / times);
                assert!(*seen.last().unwrap() as u32 >= (y + height - 1) / times);
                assert!(seen.windows(2).all(|pair| pair[0] + 1 == pair[1]));
            }
        }
    }
}

#[test]
fn damaged_files_do_not_panic() {
    let mut rng = Rng::new(9);
    let program = program((24, 31), Filter::Bilinear, true, true);
    for (_, data, header) in images() {
        let index = EntryPoints::build(&data, &header, 2).ok().map(|index| index.to_bytes());
        let entry_points = index.as_deref();
        for sample in 0..30 {
            let mut damaged = data.clone();
            for _ in 0..=rng.below(4) {
                let place = 2 + rng.below(data.len() as u64 - 2) as usize;
                damaged[place] = rng.below(256) as u8;
            }
            run(Level::best(), &program, Image::Encoded { data: &damaged, entry_points }, sample);
            let cut = 2 + rng.below(data.len() as u64 - 2) as usize;
            run(Level::best(), &program, Image::Encoded { data: &data[..cut], entry_points }, sample);
        }
    }
}
