//! CPU milliseconds per image of RandomResizedCrop(224) to float32, exact and fast, on one thread, from files in memory.
//!
//! `cargo run --release --no-default-features --example fast_speed -- FOLDER_OF_JPEGS [RUNS]`

use std::sync::Arc;

use penstock_core::image::emit::{Format, Layout};
use penstock_core::image::filter::{Filter, Scaling};
use penstock_core::image::limits::Limits;
use penstock_core::image::mode::Mode;
use penstock_core::image::numbers::Dtype;
use penstock_core::image::ops::{Ops, RandomHorizontalFlip, RandomResizedCrop};
use penstock_core::image::program::{Image, Program, Worker};
use penstock_core::image::simd::Level;
use penstock_core::jpeg::{EntryPoints, Header};

const IMAGES: usize = 1_000;
/// Images of a batch, whose memory is written again and again.
const BATCH: usize = 256;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("a folder of JPEGs");
    let runs: usize = arguments.next().map_or(7, |text| text.parse().expect("a number of runs"));
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    paths.truncate(IMAGES);
    let files: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).expect("a file that can be read")).collect();
    let index = |data: &Vec<u8>| EntryPoints::build(data, &Header::parse(data).ok()?, 8).ok().map(|i| i.to_bytes());
    let indexes: Vec<Option<Vec<u8>>> = files.iter().map(index).collect();
    println!("{} files, {} with entry points", files.len(), indexes.iter().flatten().count());
    for filter in [Filter::Bilinear, Filter::Bicubic] {
        for with_index in [false, true] {
            let once = |fast: bool| measure(fast, filter, &files, with_index.then_some(&indexes));
            let mut times: Vec<(f64, f64)> = (0..runs).map(|_| (once(false), once(true))).collect();
            times.sort_by(|one, two| (one.0 / one.1).total_cmp(&(two.0 / two.1)));
            let best = times.iter().fold((f64::MAX, f64::MAX), |best, time| (best.0.min(time.0), best.1.min(time.1)));
            let (low, middle, high) = (times[0], times[runs / 2], times[runs - 1]);
            println!(
                "{filter:?}, entry points {with_index}: exact {:.4} ms, fast {:.4} ms, ratio {:.3} (median of runs {:.3}, {:.3} to {:.3})",
                best.0,
                best.1,
                best.0 / best.1,
                middle.0 / middle.1,
                low.0 / low.1,
                high.0 / high.1
            );
        }
    }
}

fn measure(fast: bool, filter: Filter, files: &[Vec<u8>], indexes: Option<&Vec<Option<Vec<u8>>>>) -> f64 {
    let (scale, bias) = ([0.017, 0.0175, 0.0174, 1.0], [-2.1, -2.0, -1.8, 0.0]);
    let format = Format {
        height: 224,
        width: 224,
        channels: 3,
        is_wide: false,
        dtype: Dtype::Float32,
        crops: 1,
        layout: Layout::Nchw,
        scale,
        bias,
    };
    let crop = RandomResizedCrop {
        size: (224, 224),
        scale: (0.08, 1.0),
        ratio: (0.75, 4.0 / 3.0),
        scaling: Scaling { filter, antialias: true },
    };
    let ops: Ops = vec![(0, Arc::new(crop)), (1, Arc::new(RandomHorizontalFlip { p: 0.5 }))];
    let program = Program {
        ops,
        apply_exif: false,
        fast,
        allow_truncated: false,
        mode: Mode::Rgb,
        is_strict: false,
        format,
        limits: Limits::default(),
    };
    let (mut worker, mut out) = (Worker::new(Level::best(), format), vec![1; BATCH * format.bytes() + 64]);
    worker.set_format(format, true);
    let first = out.as_ptr().align_offset(64);
    let out = &mut out[first..];
    let start = cpu_ms();
    for sample in 0..IMAGES {
        let data = &files[sample % files.len()];
        let entry_points = indexes.and_then(|indexes| indexes[sample % files.len()].as_deref());
        let out = &mut out[sample % BATCH * format.bytes()..][..format.bytes()];
        program.run(&mut worker, Image::Encoded { data, entry_points }, 1, sample as i64, out).expect("good files");
        worker.finish();
    }
    (cpu_ms() - start) / IMAGES as f64
}

/// Milliseconds that this thread has run (Linux).
fn cpu_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|field| field.parse::<f64>().ok()).expect("a number of nanoseconds") / 1e6
}
