//! What the `parquet` crate takes for the work of Penstock's Parquet reader: CPU milliseconds, the least of several passes.
//!
//!     parquet-crate FILE footer|rows|all PASSES < rows
//!
//! `rows` reads the numbers of rows of the first row group from standard input. Prints milliseconds and a checksum.

use std::fs::File;
use std::io::Read;
use std::ops::Range;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::file::metadata::{
    PageIndexPolicy, ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy,
};

fn cpu_ms() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

fn least(passes: usize, mut work: impl FnMut() -> f64) -> (f64, f64) {
    let (mut best, mut check) = (f64::INFINITY, 0.0);
    for _ in 0..passes {
        let before = cpu_ms();
        check = work();
        best = best.min(cpu_ms() - before);
    }
    (best, check)
}

/// Runs of neighbouring rows.
fn runs(rows: &[usize]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for &row in rows {
        match found.last_mut() {
            Some(run) if run.end == row => run.end += 1,
            _ => found.push(row..row + 1),
        }
    }
    found
}

fn checksum(batch: &RecordBatch) -> f64 {
    let first = batch.column(0);
    let sum: f64 = match first.as_primitive_opt::<Int64Type>() {
        Some(column) => column.values().iter().map(|&value| value as f64).sum(),
        None => first.as_primitive::<Float64Type>().values().iter().sum(),
    };
    sum
}

fn footer(path: &str, passes: usize) -> (f64, f64) {
    let file = std::fs::read(path).unwrap();
    let length = u32::from_le_bytes(file[file.len() - 8..][..4].try_into().unwrap()) as usize;
    let data = &file[file.len() - 8 - length..file.len() - 8];
    // The least that the crate can read: all columns, no statistics; Penstock reads those of the columns that are wanted.
    let options = ParquetMetaDataOptions::new()
        .with_column_stats_policy(ParquetStatisticsPolicy::SkipAll)
        .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll);
    least(passes, || {
        ParquetMetaDataReader::decode_metadata_with_options(data, Some(&options)).unwrap().num_row_groups() as f64
    })
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (path, case, passes) = (&arguments[1], arguments[2].as_str(), arguments[3].parse().unwrap());
    let (ms, check) = if case == "footer" {
        footer(path, passes)
    } else {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).unwrap();
        let rows: Vec<usize> = text.split_whitespace().map(|row| row.parse().unwrap()).collect();
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
        let metadata = ArrowReaderMetadata::load(&File::open(path).unwrap(), options).unwrap();
        let total = metadata.metadata().row_group(0).num_rows() as usize;
        let bytes = Bytes::from(std::fs::read(path).unwrap()); // in memory: the reading itself costs the crate nothing
        least(passes, || {
            let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes.clone(), metadata.clone())
                .with_row_groups(vec![0])
                .with_batch_size(total);
            if case == "rows" {
                let selection = RowSelection::from_consecutive_ranges(runs(&rows).into_iter(), total);
                builder = builder.with_row_selection(selection);
            }
            builder.build().unwrap().map(|batch| checksum(&batch.unwrap())).sum()
        })
    };
    println!("{ms} {check}");
}
