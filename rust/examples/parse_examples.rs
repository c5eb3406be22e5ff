//! How many records a second one core parses: `cargo run --release --no-default-features --example parse_examples`.
//!
//! Records of 32 floats, 16 integers and a label (about 237 bytes and their frame), in random order over many buffers of
//! 1 MiB, as a shuffled epoch gives them; batches of 1,024. One line of JSON for each case.

use std::time::Instant;

use penstock_core::core::crc32c::masked;
use penstock_core::core::dtype::Dtype;
use penstock_core::core::keys::Rng;
use penstock_core::records::example::{Column, Parser, Records, Target};

const BATCH: usize = 1024;

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn block(field: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![field << 3 | 2];
    varint(content.len() as u64, &mut out);
    out.extend_from_slice(content);
    out
}

fn entry(key: &str, list: u8, values: &[u8]) -> Vec<u8> {
    block(1, &[block(1, key.as_bytes()), block(2, &block(list, &block(1, values)))].concat())
}

fn record(rng: &mut Rng, top: u64) -> Vec<u8> {
    let floats: Vec<u8> = (0..32).flat_map(|_| (rng.uniform() as f32).to_le_bytes()).collect();
    let mut integers = Vec::new();
    for _ in 0..16 {
        varint(rng.below(top), &mut integers);
    }
    let mut entries =
        [entry("floats", 2, &floats), entry("ints", 3, &integers), entry("label", 3, &[rng.below(10) as u8])];
    let turn = rng.below(3) as usize;
    entries.rotate_left(turn);
    let data = block(1, &entries.concat());
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &masked(&length).to_le_bytes(), &data, &masked(&data).to_le_bytes()].concat()
}

fn parser(verify: bool) -> Parser {
    let fixed = |feature, dtype, values| Column {
        feature,
        target: Target::Fixed { dtype, values },
        expected: String::new(),
        default: None,
    };
    let columns = vec![fixed(0, Dtype::Float32, 32), fixed(1, Dtype::Int64, 16), fixed(2, Dtype::Int64, 1)];
    Parser::new(["floats", "ints", "label"].map(str::to_owned).to_vec(), Vec::new(), columns, verify, 1 << 28)
}

fn main() {
    for (what, top) in [("integers below 100", 100), ("integers below 2^21", 1 << 21), ("integers below 2^63", 1 << 63)]
    {
        let mut rng = Rng::new(top);
        let mut buffers: Vec<Vec<u8>> = Vec::new();
        let mut spans = Vec::new();
        for which in 0..128 {
            let mut buffer = Vec::with_capacity(1 << 20);
            while buffer.len() < (1 << 20) - 600 {
                let bytes = record(&mut rng, top);
                spans.push((which, buffer.len() as i64, bytes.len() as i64));
                buffer.extend(bytes);
            }
            buffers.push(buffer);
        }
        for place in (1..spans.len()).rev() {
            spans.swap(place, rng.below(place as u64 + 1) as usize);
        }
        spans.truncate(spans.len() / BATCH * BATCH);
        let buffers: Vec<&[u8]> = buffers.iter().map(Vec::as_slice).collect();
        let columns: [Vec<i64>; 3] = [
            spans.iter().map(|span| span.0).collect(),
            spans.iter().map(|span| span.1).collect(),
            spans.iter().map(|span| span.2).collect(),
        ];
        for verify in [true, false] {
            for threads in [1, 2] {
                measure(what, verify, threads, &buffers, &columns);
            }
        }
    }
}

/// CPU time of this thread in ns, which other programs on the machine disturb less; None where the system does not tell.
fn cpu_ns() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

fn measure(what: &str, verify: bool, threads: usize, buffers: &[&[u8]], columns: &[Vec<i64>; 3]) {
    let parser = parser(verify);
    let pool = penstock_core::core::pool::shared(threads).expect("threads");
    let pool = (threads > 1).then_some(&*pool);
    let mut outs = [vec![0; BATCH * 128], vec![0; BATCH * 128], vec![0; BATCH * 8]];
    let rows = columns[0].len();
    let mut best = f64::INFINITY;
    let mut best_cpu = u64::MAX;
    for _ in 0..8 {
        let (start, cpu) = (Instant::now(), cpu_ns());
        for first in (0..rows).step_by(BATCH) {
            let part = first..first + BATCH;
            let records = Records {
                buffers,
                which: &columns[0][part.clone()],
                offset: &columns[1][part.clone()],
                length: &columns[2][part],
            };
            parser.parse(records, outs.iter_mut().map(Vec::as_mut_slice).collect(), pool).expect("records are sound");
        }
        best = best.min(start.elapsed().as_secs_f64());
        if let (1, Some(before), Some(after)) = (threads, cpu, cpu_ns()) {
            best_cpu = best_cpu.min(after - before);
        }
    }
    let rate = rows as f64 / best;
    let cpu = if best_cpu < u64::MAX { format!("{:.1}", best_cpu as f64 / rows as f64) } else { "null".to_owned() };
    println!(
        "{{\"case\": \"{what}\", \"verify\": {verify}, \"threads\": {threads}, \"records_per_s\": {rate:.0}, \"cpu_ns_per_record\": {cpu}}}"
    );
}
