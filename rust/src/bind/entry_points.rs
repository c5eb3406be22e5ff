//! Bindings of `jpeg::EntryPoints`: the index of a whole dataset, as columns by sample id.

use std::sync::atomic::Ordering;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use rayon::prelude::*;

use super::watched::watched;
use super::{Bytes, Ids, kernel_pool};
use crate::core::{crc32c, gather};
use crate::jpeg::{EntryPoints, Header};

/// Where each sample's entry points begin and how long they are (0: none), the CRC-32C of its record, and all bytes.
pub type Columns<'py> = (Ids<'py>, Ids<'py>, PyReadonlyArray1<'py, u32>, Bytes<'py>);

/// Entry points of a dataset, by sample id.
pub struct Index<'a> {
    offset: &'a [i64],
    length: &'a [i64],
    checksum: &'a [u32],
    bytes: &'a [u8],
}

impl<'a> Index<'a> {
    /// Views of the columns.
    pub fn new(columns: &'a Columns<'_>) -> PyResult<Self> {
        let (offset, length, checksum, bytes) = columns;
        let (offset, length) = (offset.as_slice()?, length.as_slice()?);
        Ok(Self { offset, length, checksum: checksum.as_slice()?, bytes: bytes.as_slice()? })
    }

    /// The entry points of a sample; None where there are none, or they were made from other bytes.
    pub fn of(&self, sample: i64, data: &[u8]) -> Option<&'a [u8]> {
        let sample = usize::try_from(sample).ok()?;
        let (offset, length) = (*self.offset.get(sample)?, *self.length.get(sample)?);
        let found = gather::span(&[self.bytes], 0, offset, length).filter(|found| !found.is_empty())?;
        (crc32c::sum(data) == *self.checksum.get(sample)?).then_some(found)
    }
}

type Built<'py> = (Bound<'py, PyArray1<u8>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<u32>>);

/// Builds the entry points of images, one every `every_pixels` pixels of an MCU row: their bytes joined, the length of each (0: no
/// baseline JPEG, or a damaged one), and the CRC-32C of each record.
#[pyfunction]
fn jpeg_entry_points<'py>(
    py: Python<'py>,
    buffers: Vec<Bytes<'_>>,
    which: Ids<'_>,
    offset: Ids<'_>,
    length: Ids<'_>,
    every_pixels: u32,
    threads: usize,
) -> PyResult<Built<'py>> {
    let buffers = buffers.iter().map(|buffer| Ok(buffer.as_slice()?)).collect::<PyResult<Vec<&[u8]>>>()?;
    let (which, offset, length) = (which.as_slice()?, offset.as_slice()?, length.as_slice()?);
    let rows = which.len().min(offset.len()).min(length.len());
    let pool = kernel_pool(threads)?;
    let build = |row: usize| -> (Vec<u8>, u32) {
        let Some(data) = gather::span(&buffers, which[row], offset[row], length[row]) else { return (Vec::new(), 0) };
        let header = Header::parse(data).ok().filter(Header::is_supported);
        let found = header.and_then(|header| {
            let every_mcus = (every_pixels / header.mcu_size().0.max(1)).max(1);
            EntryPoints::build(data, &header, every_mcus).ok()
        });
        (found.map(|found| found.to_bytes()).unwrap_or_default(), crc32c::sum(data))
    };
    let built: Vec<(Vec<u8>, u32)> = watched(py, &pool, |stopped| {
        let wanted = |_: &usize| !stopped.load(Ordering::Relaxed);
        (0..rows).into_par_iter().filter(wanted).map(build).collect()
    })?;
    let joined = built.iter().flat_map(|(bytes, _)| bytes.iter().copied()).collect();
    let lengths = built.iter().map(|(bytes, _)| bytes.len() as i64).collect();
    let checksums = built.iter().map(|&(_, checksum)| checksum).collect();
    Ok((PyArray1::from_vec(py, joined), PyArray1::from_vec(py, lengths), PyArray1::from_vec(py, checksums)))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(jpeg_entry_points, module)?)
}
