//! Looks at the JPEG decoder from a shell.
//!
//! ```text
//! jpeg rgb FILE [SCALE]      raw RGB of the whole picture on stdout
//! jpeg crc FILE...           CRC-32 of every picture's RGB bytes, one line each
//! jpeg bench DIR [SECONDS]   pictures per second: whole, regions, regions with entry points; size of the index
//! ```

use std::io::Write;
use std::time::{Duration, Instant};

use penstock_core::geometry::Rect;
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
        ["bench", directory] => bench(directory, 2.0)?,
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

fn bench(directory: &str, seconds: f64) -> Result<(), Box<dyn std::error::Error>> {
    let mut names: Vec<_> =
        std::fs::read_dir(directory)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    names.retain(|name| name.extension().is_some_and(|suffix| suffix == "jpg"));
    names.sort();
    let mut files = Vec::new();
    let (mut file_bytes, mut index_bytes) = (0, 0);
    let mut build_time = Duration::ZERO;
    for name in &names {
        let data = std::fs::read(name)?;
        let header = Header::parse(&data)?;
        let start = Instant::now();
        let entries = EntryPoints::build(&data, &header, 128 / header.mcu_size().0)?;
        build_time += start.elapsed();
        file_bytes += data.len();
        index_bytes += entries.to_bytes().len();
        files.push((data, header, entries));
    }
    println!(
        "{} files, {} bytes each, index every 128 pixels {:.2} % of them, built {:.0} files/s",
        files.len(),
        file_bytes / files.len().max(1),
        100.0 * index_bytes as f64 / file_bytes as f64,
        files.len() as f64 / build_time.as_secs_f64()
    );
    let mut decoder = Decoder::new();
    for (label, is_region, with_entries, scale) in [
        ("whole", false, false, 1),
        ("whole 1/2", false, false, 2),
        ("whole 1/4", false, false, 4),
        ("whole 1/8", false, false, 8),
        ("region", true, false, 1),
        ("region, entry points", true, true, 1),
    ] {
        // The best time of each picture: what the machine's other work disturbs least.
        let mut best = vec![f64::INFINITY; files.len()];
        let begin = Instant::now();
        while begin.elapsed().as_secs_f64() < seconds {
            let mut state = 1;
            for ((data, _, entries), best) in files.iter().zip(&mut best) {
                let start = Instant::now();
                let header = Header::parse(data)?;
                let region = if is_region { random_resized_crop(&header, &mut state) } else { header.whole(scale) };
                let options =
                    DecodeOptions { entry_points: with_entries.then_some(entries), scale, ..DecodeOptions::default() };
                let row_bytes = region.width as usize * 3;
                let mut out = vec![0u8; region.height as usize * row_bytes];
                decoder.decode(data, &header, region, &options, &mut |first, rows| {
                    out[first as usize * row_bytes..][..rows.len()].copy_from_slice(rows);
                })?;
                std::hint::black_box(&out);
                *best = best.min(start.elapsed().as_secs_f64());
            }
        }
        let best = files.len() as f64 / best.iter().sum::<f64>();
        println!("{label:24} {best:8.0} pictures/s");
    }
    Ok(())
}
