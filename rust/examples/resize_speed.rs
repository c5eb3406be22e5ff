//! CPU milliseconds per image of the resize and the final store alone, on one thread, from pixels in memory.
//!
//! `cargo run --release --no-default-features --example resize_speed`

use std::sync::Arc;

use penstock_core::image::emit::{Format, Layout};
use penstock_core::image::filter::{Filter, Scaling};
use penstock_core::image::limits::Limits;
use penstock_core::image::mode::Mode;
use penstock_core::image::numbers::Dtype;
use penstock_core::image::ops::{Ops, RandomHorizontalFlip, RandomResizedCrop};
use penstock_core::image::program::{Image, Program, Worker};
use penstock_core::image::simd::Level;

const SIZE: (u32, u32) = (500, 400);
const IMAGES: usize = 256;

fn main() {
    // With an argument only the main case, as often as it says: for a profiler.
    if let Some(times) = std::env::args().nth(1).and_then(|text| text.parse::<usize>().ok()) {
        let (pixels, mut batch) = (vec![7; 500 * 400 * 3], vec![1; 224 * 224 * 3 * 4 * IMAGES]);
        for _ in 0..times {
            measure(Level::best(), Filter::Bilinear, Dtype::Float32, Layout::Nchw, &pixels, &mut batch);
        }
        return;
    }
    let pixels: Vec<u8> = (0..SIZE.0 * SIZE.1 * 3).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut batch = vec![1_u8; 224 * 224 * 3 * 4 * IMAGES];
    for level in [Level::best(), Level::Scalar] {
        for filter in [Filter::Nearest, Filter::Bilinear, Filter::Bicubic] {
            for (dtype, layout) in [
                (Dtype::Float32, Layout::Nchw),
                (Dtype::Float16, Layout::Nchw),
                (Dtype::Float32, Layout::Nhwc),
                (Dtype::Uint8, Layout::Nhwc),
                (Dtype::Uint8, Layout::Nchw),
            ] {
                let best =
                    (0..7).map(|_| measure(level, filter, dtype, layout, &pixels, &mut batch)).fold(f64::MAX, f64::min);
                println!("{level:?} {filter:?} {dtype:?} {layout:?}: {best:.4} ms");
            }
        }
    }
}

fn measure(level: Level, filter: Filter, dtype: Dtype, layout: Layout, pixels: &[u8], batch: &mut [u8]) -> f64 {
    let format = Format {
        height: 224,
        width: 224,
        channels: 3,
        is_wide: false,
        dtype,
        crops: 1,
        layout,
        scale: [0.017, 0.0175, 0.0174, 1.0],
        bias: [-2.1, -2.0, -1.8, 0.0],
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
        fast: false,
        allow_truncated: false,
        mode: Mode::Rgb,
        is_strict: false,
        format,
        limits: Limits::default(),
    };
    let mut worker = Worker::new(level, format);
    let start = cpu_ms();
    for (sample, out) in batch.chunks_exact_mut(format.bytes()).take(IMAGES).enumerate() {
        let image = Image::Pixels { bytes: pixels, size: SIZE };
        program.run(&mut worker, image, 1, sample as i64, out).expect("good pixels");
    }
    (cpu_ms() - start) / IMAGES as f64
}

/// Milliseconds that this thread has run (Linux).
fn cpu_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|field| field.parse::<f64>().ok()).expect("a number of nanoseconds") / 1e6
}
