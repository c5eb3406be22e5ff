//! Properties of the whole image kernel: a window equals the crop of the whole, chunks do not matter, SIMD equals plain code.

use proptest::prelude::*;

use super::chain::{Chain, Row, Window};
use super::emit::{Emitter, Format, Layout};
use super::filter::{Filter, Scaling};
use super::mode::Mode;
use super::numbers::Dtype;
use super::resample::{Resampler, Source, Task};
use super::simd::Level;
use crate::core::geometry::Rect;
use crate::core::keys::Rng;

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    // Extremes are frequent, so that clipping is met.
    (0..bytes).map(|_| [0, 255, rng.below(256) as u8, rng.below(256) as u8][rng.below(4) as usize]).collect()
}

/// Resizes with rows pushed `chunk` at a time; interleaved RGB8 of the window.
fn resized(level: Level, pixels: &[u8], task: &Task, chunk: usize) -> Vec<u8> {
    let mut resampler = Resampler::new(level, Source::Pixels);
    let format = Format::pixels(Mode::Rgb, task.window.width, task.window.height);
    let (mut emitter, mut out) = (Emitter::new(level, format), vec![0; format.bytes()]);
    let region = resampler.start(task);
    let mut rows = Vec::new();
    for y in region.y..region.y + region.height {
        let start = (y as usize * task.source.0 as usize + region.x as usize) * 3;
        rows.extend_from_slice(&pixels[start..start + region.width as usize * 3]);
    }
    for rows in rows.chunks(chunk * region.width as usize * 3) {
        resampler.push(rows, &mut |row, planes| emitter.store(row, planes, &mut out));
    }
    assert!(resampler.is_complete());
    out
}

/// As [`resized`], of one plane.
fn resized_plane(level: Level, bytes: &[u8], task: &Task) -> Vec<u8> {
    let mut resampler = Resampler::new(level, Source::Planes(1));
    let region = resampler.start(task);
    let mut rows = vec![Vec::new(); task.window.height as usize];
    for y in region.y..region.y + region.height {
        let row = &bytes[(y * task.source.0 + region.x) as usize..][..region.width as usize];
        resampler.push(row, &mut |row, planes| rows[row as usize] = planes.plane(0).to_vec());
    }
    rows.concat()
}

fn cropped(pixels: &[u8], width: u32, part: Rect) -> Vec<u8> {
    let line = |y: u32| ((part.y + y) as usize * width as usize + part.x as usize) * 3;
    (0..part.height).flat_map(|y| pixels[line(y)..line(y) + part.width as usize * 3].to_vec()).collect()
}

fn mirrored(pixels: &[u8], width: u32, flip: (bool, bool)) -> Vec<u8> {
    let mut rows: Vec<Vec<u8>> = pixels.chunks(width as usize * 3).map(<[u8]>::to_vec).collect();
    if flip.1 {
        rows.reverse();
    }
    if flip.0 {
        rows.iter_mut().for_each(|row| *row = row.chunks(3).rev().flatten().copied().collect());
    }
    rows.concat()
}

prop_compose! {
    fn any_task()(
        source in (1_u32..70, 1_u32..70),
        target in (1_u32..90, 1_u32..90),
        corner in (0.0..1.0, 0.0..1.0),
        share in (0.0..1.0, 0.0..1.0),
        filter in prop_oneof![Just(Filter::Nearest), Just(Filter::NearestExact), Just(Filter::Bilinear), Just(Filter::Bicubic)],
        antialias: bool,
        mirrored: (bool, bool),
        reversed: (bool, bool),
    ) -> Task {
        let x = (corner.0 * f64::from(target.0)) as u32;
        let y = (corner.1 * f64::from(target.1)) as u32;
        let width = 1 + (share.0 * f64::from(target.0 - x - 1)) as u32;
        let height = 1 + (share.1 * f64::from(target.1 - y - 1)) as u32;
        let window = Rect { x, y, width, height };
        Task { source, target, scaling: Scaling { filter, antialias }, mirrored, window, reversed }
    }
}

fn whole(task: &Task) -> Task {
    let window = Rect { x: 0, y: 0, width: task.target.0, height: task.target.1 };
    Task { window, mirrored: (false, false), reversed: (false, false), ..*task }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_window_is_the_crop_of_the_whole(task in any_task(), seed: u64) {
        let pixels = noise(seed, (task.source.0 * task.source.1 * 3) as usize);
        let before = mirrored(&pixels, task.source.0, task.mirrored);
        let all = resized(Level::best(), &before, &whole(&task), 1000);
        let expected = mirrored(&cropped(&all, task.target.0, task.window), task.window.width, task.reversed);
        prop_assert_eq!(resized(Level::best(), &pixels, &task, 1000), expected);
    }

    #[test]
    fn chunks_and_instructions_do_not_matter(task in any_task(), seed: u64, chunk in 1_usize..20) {
        let pixels = noise(seed, (task.source.0 * task.source.1 * 3) as usize);
        let expected = resized(Level::Scalar, &pixels, &task, 1000);
        prop_assert_eq!(&resized(Level::best(), &pixels, &task, chunk), &expected);
        prop_assert_eq!(&resized(Level::Scalar, &pixels, &task, chunk), &expected);
    }

    #[test]
    fn planes_alone_become_what_they_become_together(task in any_task(), seed: u64) {
        let pixels = noise(seed, (task.source.0 * task.source.1 * 3) as usize);
        let together = resized(Level::Scalar, &pixels, &task, 1000);
        let plane: Vec<u8> = pixels.iter().skip(1).step_by(3).copied().collect();
        let expected: Vec<u8> = together.iter().skip(1).step_by(3).copied().collect();
        prop_assert_eq!(&resized_plane(Level::best(), &plane, &task), &expected);
        prop_assert_eq!(&resized_plane(Level::Scalar, &plane, &task), &expected);
    }

    #[test]
    fn flat_images_stay_flat(task in any_task(), value: u8) {
        let pixels = vec![value; (task.source.0 * task.source.1 * 3) as usize];
        prop_assert!(resized(Level::best(), &pixels, &task, 1000).iter().all(|&byte| byte == value));
    }

    #[test]
    fn the_store_is_the_same_with_all_instructions(
        width in 1_u32..80,
        dtype in prop_oneof![Just(Dtype::Uint8), Just(Dtype::Float16), Just(Dtype::Bfloat16), Just(Dtype::Float32)],
        nchw: bool,
        channels in 1_usize..5,
        crops in 1_u32..3,
        scale in prop::array::uniform4(-3.0_f32..3.0),
        bias in prop::array::uniform4(-300.0_f32..300.0),
        seed: u64,
    ) {
        let layout = if nchw { Layout::Nchw } else { Layout::Nhwc };
        let format = Format { height: 2, width, channels, is_wide: false, dtype, crops, layout, scale, bias };
        let pitch = super::resample::pitch_of(width as usize);
        let bytes = noise(seed, 4 * pitch);
        let store = |level: Level, past_caches: bool| {
            let mut room = vec![0; format.bytes() + 32];
            let first = room.as_ptr().align_offset(32);
            let out = &mut room[first..][..format.bytes()];
            let planes = super::resample::Planes { bytes: &bytes, pitch, width: width as usize };
            let mut emitter = Emitter::new(level, format);
            emitter.set_past_caches(past_caches);
            emitter.store(1, planes, out);
            emitter.finish();
            out.to_vec()
        };
        prop_assert_eq!(store(Level::best(), false), store(Level::Scalar, false));
        prop_assert_eq!(store(Level::best(), true), store(Level::Scalar, false));
    }
}

#[test]
fn huge_scales_do_not_overflow() {
    for filter in [Filter::Bilinear, Filter::Bicubic, Filter::Nearest] {
        for (source, target) in [(65_535, 1), (65_535, 3), (1, 2_000), (3_000, 224)] {
            let pixels = vec![255; source as usize * 3 * 2];
            let window = Rect { x: 0, y: 0, width: target, height: 1 };
            let scaling = Scaling { filter, antialias: true };
            let (mirrored, reversed) = ((false, false), (false, false));
            let task = Task { source: (source, 2), target: (target, 1), scaling, mirrored, window, reversed };
            assert!(resized(Level::best(), &pixels, &task, 1).iter().all(|&byte| byte == 255), "{task:?}");
        }
    }
}

#[test]
fn a_mirrored_part_of_the_padding_alone_is_zeros() {
    let mut chain = Chain::new((13, 11), Row::default());
    chain.crop(Window { x: -100, y: -100, width: 213, height: 211 });
    chain.flip_horizontal();
    chain.flip_vertical();
    chain.crop(Window { x: 0, y: 0, width: 10, height: 8 });
    let passes = chain.finish(u64::MAX).unwrap();
    assert_eq!((passes.len(), passes[0].task, passes[0].size, passes[0].offset), (1, None, (10, 8), (0, 0)));
}
