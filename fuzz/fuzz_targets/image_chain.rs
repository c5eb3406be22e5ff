//! Any bytes through a chain of any ops, from the encoded image to the emitted row: pixels or a complaint, and the same ones whatever the worker did
//! before. The last `CHOICE` bytes choose the chain; what stands before them is the image.
#![no_main]

use std::cell::RefCell;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use penstock_core::image::boxes::{BoxFormat, BoxStep, Boxes};
use penstock_core::image::emit::{Format, Layout};
use penstock_core::image::numbers::Dtype;
use penstock_core::image::filter::{Filter, Scaling};
use penstock_core::image::limits::Limits;
use penstock_core::image::mode::Mode;
use penstock_core::image::moves::Border;
use penstock_core::image::one_image;
use penstock_core::image::ops::warp::Look;
use penstock_core::image::ops::{
    AugMix, AutoAugment, CenterCrop, ColorJitter, Crops, ElasticTransform, Erased, Fit, GaussianBlur, GaussianNoise, Grayscale, Jpeg, Letterbox, Margin, Mirrored, Op, Ops, Pad, RandAugment, RandomAffine, RandomChange,
    RandomChannelPermutation, RandomCrop, RandomErasing, RandomGrayscale, RandomHorizontalFlip, RandomIoUCrop, RandomPerspective, RandomPhotometricDistort, RandomResize, RandomResizedCrop,
    RandomRotation, RandomShortestSize, RandomVerticalFlip, RandomZoomOut, Resize, ScaleJitter, TimmAugment, TrivialAugmentWide, colour,
};
use penstock_core::image::patch::Unit;
use penstock_core::image::placing::{Points, Precision};
use penstock_core::image::program::{Image, Program, Worker};
use penstock_core::image::simd::Level;
use penstock_core::image::warp::Sampling;

/// Bytes that choose: the format (3), the switches (1), and four ops of three bytes each.
const CHOICE: usize = 16;

fn side(byte: u8) -> u32 {
    1 + u32::from(byte) * 2
}

fn scaling(byte: u8) -> Scaling {
    let filter = [Filter::Nearest, Filter::Bilinear, Filter::Bicubic, Filter::NearestExact][usize::from(byte) % 4];
    Scaling { filter, antialias: byte & 0x40 == 0 }
}

fn exact((height, width): (u32, u32)) -> Fit {
    Fit::Exact { height, width }
}

fn look(byte: u8) -> Look {
    let sampling = if byte & 1 == 0 { Sampling::Nearest } else { Sampling::Bilinear };
    Look { sampling, fill: (byte & 2 == 0).then(|| vec![f64::from(byte); 1 + usize::from(byte & 4)]) }
}

fn margin(byte: u8) -> Margin {
    match byte & 3 {
        0 => Margin::Constant(vec![f64::from(byte)]),
        1 => Margin::Image(Border::Edge),
        2 => Margin::Image(Border::Reflect),
        _ => Margin::Image(Border::Symmetric),
    }
}

fn mirrored(byte: u8) -> Option<Mirrored> {
    [None, Some(Mirrored::Horizontally), Some(Mirrored::Vertically)][usize::from(byte) % 3]
}

/// What moves pixels elsewhere than to rows and columns.
fn move_of(choice: &[u8]) -> Arc<dyn Op> {
    let (size, how) = ((side(choice[1]), side(choice[2])), choice[0] / 16 % 8 + 8 * (choice[1] & 1));
    let (a, b) = (f64::from(choice[1]), f64::from(choice[2]));
    let (look, p, scaling) = (look(choice[1]), a / 255.0, scaling(choice[2]));
    let sides = [choice[1] as i8, choice[2] as i8, choice[1] as i8 / 2, 3].map(i64::from);
    match how {
        0 => Arc::new(RandomRotation { degrees: (a, a + b), expand: choice[2] & 1 == 0, center: None, look }),
        1 => Arc::new(RandomRotation { degrees: (90.0, 90.0), expand: choice[2] & 1 == 0, center: None, look }),
        2 => Arc::new(RandomAffine {
            degrees: (-a, a),
            translate: Some((p, b / 255.0)),
            scale: Some((0.01 + p, 0.01 + p + b / 64.0)),
            shear: Some(vec![-a, b]),
            center: Some((a, -b)),
            look,
        }),
        3 => Arc::new(RandomAffine { degrees: (0.0, 0.0), translate: Some((p, p)), scale: None, shear: None, center: None, look }),
        4 => Arc::new(RandomPerspective { distortion_scale: p, p: b / 255.0, look }),
        5 => Arc::new(ElasticTransform { alpha: (a, b), sigma: (b / 32.0, a / 32.0 + 0.01), look }),
        6 | 7 => Arc::new(Pad { padding: sides, margin: margin(how ^ choice[1]) }),
        8 | 9 => Arc::new(RandomCrop { size, padding: sides, pad_if_needed: how == 8, margin: margin(choice[2]) }),
        10 => Arc::new(RandomZoomOut { fill: vec![b], side_range: (1.0, 1.0 + b / 64.0), p }),
        11 => Arc::new(RandomResize { range: (size.0, size.0 + size.1), scaling }),
        12 => Arc::new(RandomShortestSize { min_size: vec![a + 1.0, b + 1.0], max_size: Some(a + b + 1.0), scaling }),
        13 => Arc::new(ScaleJitter { target_size: size, scale_range: (0.1, 2.0), scaling }),
        14 => Arc::new(Letterbox { size, fill: vec![b], scaling }),
        15 if choice[2] & 1 == 0 => Arc::new(RandomIoUCrop {
            scale: (0.01 + p / 2.0, 1.0),
            ratio: (0.5, 0.5 + b / 64.0),
            options: vec![b / 255.0, p, 1.0],
            trials: 1 + usize::from(choice[1] % 40),
        }),
        _ => Arc::new(Crops { size, mirrored: mirrored(choice[0]) }),
    }
}

fn op(choice: &[u8]) -> Option<Arc<dyn Op>> {
    let (size, how) = ((side(choice[1]), side(choice[2])), choice[0] / 8);
    let p = f64::from(choice[1]) / 255.0;
    Some(match choice[0] % 8 {
        0 => Arc::new(RandomResizedCrop { size, scale: (0.08, 1.0), ratio: (0.75, 4.0 / 3.0), scaling: scaling(how) }),
        1 => Arc::new(Resize { fit: exact(size), scaling: scaling(how) }),
        2 => Arc::new(Resize { fit: Fit::Shorter { size: size.0, max_size: (how & 8 != 0).then_some(size.1) }, scaling: scaling(how) }),
        3 => Arc::new(CenterCrop { size }),
        4 => Arc::new(RandomHorizontalFlip { p }),
        5 => Arc::new(RandomVerticalFlip { p }),
        6 => Arc::new(RandomGrayscale { p }),
        _ if choice[0] / 8 % 2 == 0 => move_of(choice),
        _ => return erasing(choice[1], choice[2]),
    })
}

/// Of bytes, or of what is emitted, wherever that is then.
fn erasing(most: u8, how: u8) -> Option<Arc<dyn Op>> {
    let value = match how % 4 {
        0 => return None,
        1 => Erased::Colour,
        2 => Erased::Noise,
        _ => Erased::Values([f64::from(how), -1.0, 300.0, 0.5]),
    };
    let unit = (how & 4 == 0).then_some(Unit { scale: [1.0, 0.5, 2.0, 1.0], bias: [0.0, -1.0, 0.25, 0.5] });
    Some(Arc::new(RandomErasing { p: 0.9, scale: (0.0, f64::from(most) / 255.0), ratio: (0.1, 4.0), value, unit }))
}

/// The ops on colours, of RGB and grey alone, which keep the mode.
fn change(choice: &[u8], mode: Mode) -> Option<Arc<dyn Op>> {
    let (p, how) = (f64::from(choice[1]) / 255.0, f64::from(choice[2]) / 64.0);
    let of = |change| Some(Arc::new(RandomChange { p, change }) as Arc<dyn Op>);
    Some(match choice[0] % 16 {
        0 => Arc::new(ColorJitter { spans: [Some((0.0, how)), Some((0.5, how)), Some((how, how)), Some((-p / 2.0, 0.5))] }),
        1 => Arc::new(RandomPhotometricDistort { spans: [(0.0, how), (0.5, how), (how, how), (-0.5, p / 2.0)], p }),
        2 => Arc::new(RandomChannelPermutation),
        3 => Arc::new(Grayscale { channels: if mode == Mode::L { 1 } else { 3 } }),
        4 => Arc::new(GaussianBlur { size: (2 * u32::from(choice[1]) + 1, 2 * u32::from(choice[2]) + 1), sigma: (0.1, 0.1 + how) }),
        5 => Arc::new(GaussianNoise::of(p - 0.5, how, choice[2] & 1 != 0)),
        6 => Arc::new(Jpeg { quality: (1 + choice[2] % 50, 100 - choice[1] % 50) }),
        7 => return of(colour::sharpness(how)),
        8 => return of(colour::autocontrast()),
        9 => return of(colour::equalize()),
        10 => return of(colour::solarize(how * 64.0)),
        11 => return of(colour::posterize(u32::from(choice[2]) % 9)),
        12 => return of(colour::invert()),
        _ => return policy(choice),
    })
}

/// Steps by chance.
fn policy(choice: &[u8]) -> Option<Arc<dyn Op>> {
    let (few, some, look) = (u32::from(choice[1] >> 2) % 5, u32::from(choice[2] % 31), look(choice[1]));
    Some(match choice[0] / 16 % 8 {
        0 => Arc::new(TrivialAugmentWide { bins: 2 + some, look }),
        1 => Arc::new(RandAugment { num_ops: few, magnitude: some, bins: 31, look }),
        2 => Arc::new(AutoAugment::of(["imagenet", "cifar10", "svhn"][usize::from(choice[2]) % 3], look).ok()?),
        3 => Arc::new(AugMix { severity: 1 + some % 10, width: 1 + few, depth: (some > 4).then_some(few), alpha: 0.5, all_ops: true, look }),
        4 => Arc::new(TimmAugment {
            magnitude: f64::from(some),
            deviation: [0.0, 0.5, 20.0, f64::INFINITY][few as usize % 4],
            most: 30.0,
            layers: few,
            p: 0.9,
            is_increasing: choice[2] & 32 != 0,
            look,
        }),
        _ => return None,
    })
}

fn program(choice: &[u8; CHOICE]) -> Program {
    let (format, ops) = choice.split_at(4);
    let (height, width) = (side(format[0]), side(format[1]));
    let mode = Mode::ALL[usize::from(format[2] >> 4) % Mode::ALL.len()];
    let has_colours = matches!(mode, Mode::Rgb | Mode::L);
    let made = |choice: &[u8]| if choice[0] >= 128 && has_colours { change(choice, mode) } else { op(choice) };
    let mut chain: Ops = ops.chunks(3).filter_map(made).zip(1..).map(|(op, number)| (number, op)).collect();
    chain.push((9, Arc::new(Resize { fit: Fit::Exact { height, width }, scaling: scaling(format[3]) })));
    let mirrored = mirrored(format[3]);
    let (crops, crop) = match (format[3] & 128, mirrored) {
        (0, _) => (1, (height, width)),
        (_, mirrored) => (if mirrored.is_some() { 10 } else { 5 }, (height.div_ceil(2), width.div_ceil(2))),
    };
    if crops > 1 {
        chain.push((10, Arc::new(Crops { size: crop, mirrored })));
    }
    let raw = if mode.is_wide() { Dtype::Uint16 } else { Dtype::Uint8 };
    let format = Format {
        height: crops * crop.0,
        width: crop.1,
        channels: mode.channels(),
        is_wide: mode.is_wide(),
        dtype: [raw, Dtype::Float16, Dtype::Bfloat16, Dtype::Float32][usize::from(format[2] >> 1 & 3)],
        crops,
        layout: if format[2] & 8 == 0 { Layout::Nchw } else { Layout::Nhwc },
        scale: [1.0 / 255.0, 0.5, 2.0, 1.0],
        bias: [0.0, -1.0, 0.25, 0.5],
    };
    let program = Program {
        ops: chain,
        mode,
        is_strict: choice[2] & 1 != 0,
        apply_exif: choice[3] & 16 == 0,
        fast: choice[3] & 32 == 0,
        allow_truncated: choice[3] & 64 != 0,
        format,
        limits: Limits { pixels: 1 << 20, image_bytes: 1 << 24, ..Limits::default() },
    };
    program.beside(boxes(choice))
}

/// Of every format and precision, some of which reach out of their image, end before they begin or are no numbers.
fn boxes(choice: &[u8; CHOICE]) -> Boxes {
    let number = |byte: u8| if byte == 255 { f64::NAN } else { f64::from(byte) * 1.5 - 20.0 };
    Boxes {
        format: [BoxFormat::Xyxy, BoxFormat::Xywh, BoxFormat::Cxcywh][usize::from(choice[0]) % 3],
        precision: [Precision::Whole, Precision::Single, Precision::Double][usize::from(choice[1]) % 3],
        boxes: choice.as_chunks::<4>().0[..usize::from(choice[2] % 4)].iter().map(|four| four.map(number)).collect(),
    }
}

/// Boxes and points go along: as often as they are asked to, to the same places.
fn follow(program: &Program, choice: &[u8; CHOICE], data: &[u8]) {
    let Ok(size) = one_image::size_at_start(program, data) else { return };
    if u64::from(size.0) * u64::from(size.1) > program.limits.pixels {
        return;
    }
    let followed = || {
        let mut chain = program.applied(size, 7, 3);
        let mut boxes = chain.boxes_mut().take().expect("they are beside the image");
        let steps = [BoxStep::Clamp, BoxStep::Convert(BoxFormat::Xywh), BoxStep::Sanitize { min_size: 1.0, min_area: 1.0 }];
        let kept = boxes.finish(&steps, chain.size());
        assert_eq!(kept.len(), boxes.boxes.len());
        assert!(boxes.edges().flatten().all(|edge| edge >= 0.0), "a box outside is left");
        format!("{boxes:?} {kept:?}")
    };
    assert_eq!(followed(), followed());
    let mut points = Points { precision: Precision::Single, points: vec![(0.0, 0.0), (f64::from(choice[4]), f64::NAN)] };
    program.moves(size, 7, 3).iter().for_each(|moved| drop(points.follow(moved)));
}

thread_local! {
    static USED: RefCell<Option<Worker>> = const { RefCell::new(None) };
}

/// The pixels, or nothing for a complaint; `fill` is what stands in the output before.
fn run(program: &Program, worker: &mut Worker, data: &[u8], fill: u8) -> Option<Vec<u8>> {
    let mut out = vec![fill; program.format.bytes()];
    worker.set_format(program.format, false);
    let done = program.run(worker, Image::Encoded { data, entry_points: None }, 7, 3, &mut out);
    worker.finish();
    done.ok().map(|()| out)
}

fuzz_target!(|data: &[u8]| {
    let Some((data, choice)) = data.split_last_chunk::<CHOICE>() else { return };
    let program = program(choice);
    let mut used = USED.take().unwrap_or_else(|| Worker::new(Level::best(), program.format));
    let first = run(&program, &mut used, data, 0);
    let again = run(&program, &mut used, data, 255);
    let fresh = run(&program, &mut Worker::new(Level::best(), program.format), data, 0);
    USED.set(Some(used));
    assert_eq!(first, again, "what stood in the output or the buffers is seen");
    assert_eq!(first, fresh, "what the worker did before is seen");
    follow(&program, choice, data);
});
