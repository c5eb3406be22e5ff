//! Looks at the JPEG decoder from a shell.
//!
//! ```text
//! jpeg rgb FILE [SCALE]      raw RGB of the whole image on stdout
//! jpeg crc FILE...           CRC-32 of every image's RGB bytes, one line each
//! jpeg bench DIR [SECONDS]   images per second of each kind of work, with and without entry points; size of the index
//! ```

use std::io::Write;
use std::time::Instant;

use penstock_core::core::geometry::Rect;
use penstock_core::jpeg::{DecodeOptions, Decoder, EntryPoints, Header, JpegError};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["rgb", file] => std::io::stdout().write_all(&rgb(&std::fs::read(file)?, 1)?)?,
        ["rgb", file, scale] => std::io::stdout().write_all(&rgb(&std::fs::read(file)?, scale.parse()?)?)?,
        ["crc", files @ ..] => {
            for file in files {
                match rgb(&std::fs::read(file)?, 1) {
                    Ok(pixels) => println!("{:08x} {file}", crc_fast::crc32_iso_hdlc(&pixels)),
                    Err(error) => println!("{error} {file}"),
                }
            }
        }
        ["bench", directory] => bench(directory, 20.0)?,
        ["bench", directory, seconds] => bench(directory, seconds.parse()?)?,
        _ => eprintln!("usage: jpeg rgb FILE [SCALE] | crc FILE... | bench DIR [SECONDS]"),
    }
    Ok(())
}

fn rgb(data: &[u8], scale: u8) -> Result<Vec<u8>, JpegError> {
    let header = Header::parse(data)?;
    let options = DecodeOptions { scale, ..DecodeOptions::default() };
    let mut pixels = Vec::new();
    Decoder::new()
        .decode(data, &header, header.whole(scale), &options, &mut |_, rows| pixels.extend_from_slice(rows))?;
    Ok(pixels)
}

/// A random region as torchvision's RandomResizedCrop(scale=(0.08, 1), ratio=(3/4, 4/3)) draws it.
fn random_resized_crop(header: &Header, state: &mut u64) -> Rect {
    let mut uniform = || {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 11) as f64 / (1u64 << 53) as f64
    };
    let (width, height) = (f64::from(header.width), f64::from(header.height));
    loop {
        let area = width * height * (0.08 + 0.92 * uniform());
        let ratio = (0.75f64.ln() + uniform() * (16.0f64 / 9.0).ln()).exp();
        let (w, h) = ((area * ratio).sqrt().round(), (area / ratio).sqrt().round());
        if w >= 1.0 && h >= 1.0 && w <= width && h <= height {
            let (x, y) = (uniform() * (width - w + 1.0), uniform() * (height - h + 1.0));
            return Rect { x: x as u32, y: y as u32, width: w as u32, height: h as u32 };
        }
    }
}

/// The part of the image that Resize(256), CenterCrop(224) keeps.
fn center_crop(header: &Header) -> Rect {
    let side = header.width.min(header.height) * 7 / 8;
    Rect { x: (header.width - side) / 2, y: (header.height - side) / 2, width: side, height: side }
}

/// What is done to every image.
#[derive(Clone, Copy)]
enum Work {
    /// Passes over all coefficients and keeps nothing but the DC predictions: the floor without an index.
    Walk,
    Whole {
        scale: u8,
    },
    RandomCrop,
    CenterCrop,
}

/// A image with its entry points.
struct File {
    data: Vec<u8>,
    entries: EntryPoints,
}

impl File {
    fn read(name: &std::path::Path) -> Result<Self, Box<dyn std::error::Error>> {
        let data = std::fs::read(name)?;
        let header = Header::parse(&data)?;
        let entries = EntryPoints::build(&data, &header, 128 / header.mcu_size().0)?;
        Ok(Self { data, entries })
    }

    fn run(&self, decoder: &mut Decoder, work: Work, with_entries: bool, state: &mut u64) -> Result<(), JpegError> {
        let header = Header::parse(&self.data)?;
        let scale = if let Work::Whole { scale } = work { scale } else { 1 };
        let region = match work {
            Work::Walk => {
                std::hint::black_box(EntryPoints::build(&self.data, &header, 1 << 16)?);
                return Ok(());
            }
            Work::Whole { scale } => header.whole(scale),
            Work::RandomCrop => random_resized_crop(&header, state),
            Work::CenterCrop => center_crop(&header),
        };
        let entry_points = with_entries.then_some(&self.entries);
        let options = DecodeOptions { entry_points, scale, ..DecodeOptions::default() };
        let row_bytes = region.width as usize * 3;
        let mut out = vec![0u8; region.height as usize * row_bytes];
        decoder.decode(&self.data, &header, region, &options, &mut |first, rows| {
            out[first as usize * row_bytes..][..rows.len()].copy_from_slice(rows);
        })?;
        std::hint::black_box(&out);
        Ok(())
    }
}

fn bench(directory: &str, seconds: f64) -> Result<(), Box<dyn std::error::Error>> {
    let mut names: Vec<_> =
        std::fs::read_dir(directory)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    names.retain(|name| name.extension().is_some_and(|suffix| suffix == "jpg"));
    names.sort();
    let files: Vec<File> = names.iter().map(|name| File::read(name)).collect::<Result<_, _>>()?;
    let file_bytes: usize = files.iter().map(|file| file.data.len()).sum();
    let index_bytes: usize = files.iter().map(|file| file.entries.to_bytes().len()).sum();
    println!(
        "{} files, {} bytes each, index every 128 pixels {:.2} % of them",
        files.len(),
        file_bytes / files.len().max(1),
        100.0 * index_bytes as f64 / file_bytes as f64,
    );
    let cases = [
        ("whole", Work::Whole { scale: 1 }, false),
        ("entropy decoding alone", Work::Walk, false),
        ("whole, entry points", Work::Whole { scale: 1 }, true),
        ("random crop", Work::RandomCrop, false),
        ("random crop, entry points", Work::RandomCrop, true),
        ("center crop", Work::CenterCrop, false),
        ("center crop, entry points", Work::CenterCrop, true),
        ("whole at 1/2", Work::Whole { scale: 2 }, false),
        ("whole at 1/4", Work::Whole { scale: 4 }, false),
        ("whole at 1/8", Work::Whole { scale: 8 }, false),
    ];
    // The best time of each image, the cases in turn: what the machine's other work disturbs least.
    let mut best = vec![[f64::INFINITY; 10]; files.len()];
    let (mut decoder, begin) = (Decoder::new(), Instant::now());
    while begin.elapsed().as_secs_f64() < seconds {
        for (number, (file, best)) in files.iter().zip(&mut best).enumerate() {
            for (&(_, work, with_entries), best) in cases.iter().zip(best) {
                let mut state = 1 + number as u64;
                let start = Instant::now();
                file.run(&mut decoder, work, with_entries, &mut state)?;
                *best = best.min(start.elapsed().as_secs_f64());
            }
        }
    }
    let rate = |case: usize| files.len() as f64 / best.iter().map(|best| best[case]).sum::<f64>();
    for (case, (label, ..)) in cases.iter().enumerate() {
        println!("{label:26} {:8.0} images/s {:6.2} of whole", rate(case), rate(case) / rate(0));
    }
    Ok(())
}
