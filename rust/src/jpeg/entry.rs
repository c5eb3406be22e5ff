//! Entry points: places inside an untouched scan where decoding can start.
//!
//! An entry is the byte and bit of an MCU's first code and the DC predictions there. There is one for the first MCU of
//! every MCU row and for every n-th MCU after it. The index says nothing about which file it belongs to: the caller
//! keeps it beside the record's checksum.
//!
//! Serialised (all numbers LEB128, least significant group first): the byte 1, MCUs between entries, MCU columns, MCU
//! rows, components; then per entry the bits since the last entry (the first: since the start of the file) and per
//! component the zigzag-coded change of the DC prediction.

use std::cell::RefCell;

use super::decoder::fault_error;
use super::layout::Layout;
use super::scan::ScanPlan;
use super::tables::TableCache;
use super::{DecodeOptions, Header, JpegError};
use crate::core::geometry::Rect;

/// Version of the serialised form.
const VERSION: u8 = 1;

thread_local! {
    /// The tables of the image that this thread walked over last.
    static TABLES: RefCell<TableCache> = RefCell::default();
}

/// One place to start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Byte of the record that holds the first unread bit.
    pub offset: u32,
    /// Bits of that byte that are read already: 0..=7.
    pub bit: u8,
    /// DC predictions of the components.
    pub dc: [i16; 3],
}

/// Places to start in one image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPoints {
    every: usize,
    columns: usize,
    rows: usize,
    components: usize,
    per_row: usize,
    entries: Vec<Entry>,
}

impl EntryPoints {
    /// Walks over the whole scan once and notes an entry every `every_mcus` MCUs of each MCU row.
    ///
    /// # Errors
    /// If the image is not supported, has more than one scan, is damaged or cut off, or is larger than 2^28 pixels.
    pub fn build(data: &[u8], header: &Header, every_mcus: u32) -> Result<Self, JpegError> {
        #[cfg(target_arch = "x86_64")]
        if super::kernels::has_avx2() {
            return super::avx2::build(data, header, every_mcus);
        }
        Self::walk(data, header, every_mcus)
    }

    /// [`EntryPoints::build`] without choice of the CPU's features.
    #[inline(always)]
    pub(super) fn walk(data: &[u8], header: &Header, every_mcus: u32) -> Result<Self, JpegError> {
        let unfit = |what| JpegError::EntryPoints { offset: header.scan.start, what };
        if header.scan.len != header.component_count {
            return Err(unfit("the image has more than one scan"));
        }
        if every_mcus == 0 || u32::try_from(data.len()).is_err() {
            return Err(unfit("no entries requested, or a file of 4 GiB or more"));
        }
        let region = Rect { x: 0, y: 0, width: header.width, height: header.height };
        let layout = Layout::new(header, region, &DecodeOptions::default())?;
        let mut cache = TABLES.take();
        cache.update(&header.scan, &header.tables);
        let quantisation = header.components.map(|part| part.quantisation);
        let plan = ScanPlan::new(&header.scan, &header.tables, &cache, &layout, &quantisation, false)
            .ok_or_else(|| unfit("a table of the scan is missing"))?;
        let every = every_mcus as usize;
        let (columns, rows) = plan.mcus;
        let per_row = columns.div_ceil(every);
        let mut entries = Vec::new();
        let mut cursor = plan.cursor(data);
        for row in 0..rows {
            for column in (0..columns).step_by(every) {
                let (offset, bit, dc) = plan.entry(&mut cursor).map_err(|f| fault_error(f, &cursor))?;
                let [Ok(y), Ok(cb), Ok(cr)] = [dc[0], dc[1], dc[2]].map(i16::try_from) else {
                    return Err(JpegError::EntryPoints { offset, what: "DC coefficients beyond 16 bits" });
                };
                entries.push(Entry { offset: offset as u32, bit: bit as u8, dc: [y, cb, cr] });
                let next = row * columns + (column + every).min(columns);
                plan.skip_to(&mut cursor, next).map_err(|f| fault_error(f, &cursor))?;
            }
        }
        TABLES.set(cache);
        Ok(Self { every, columns, rows, components: header.component_count, per_row, entries })
    }

    /// Whether the index describes an image of this shape whose record has `len` bytes.
    pub(super) fn check(&self, header: &Header, mcus: (usize, usize), len: usize) -> Result<(), JpegError> {
        let fits = (self.columns, self.rows) == mcus
            && self.components == header.component_count
            && self.components == header.scan.len
            && self.entries.iter().all(|e| (header.scan.start..=len).contains(&(e.offset as usize)));
        if fits {
            return Ok(());
        }
        Err(JpegError::EntryPoints { offset: header.scan.start, what: "the index belongs to another image" })
    }

    /// The last entry at or before an MCU, with the number of its MCU.
    pub(super) fn before(&self, mcu: usize) -> (usize, Entry) {
        let (row, column) = (mcu / self.columns, mcu % self.columns);
        let place = column / self.every;
        (row * self.columns + place * self.every, self.entries[row * self.per_row + place])
    }

    /// The compact form.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        for value in [self.every, self.columns, self.rows, self.components] {
            put(&mut out, value as u64);
        }
        let (mut place, mut dc) = (0u64, [0i16; 3]);
        for entry in &self.entries {
            let next = u64::from(entry.offset) * 8 + u64::from(entry.bit);
            put(&mut out, next - place);
            place = next;
            for (value, last) in entry.dc.iter().zip(&dc).take(self.components) {
                let change = i64::from(*value) - i64::from(*last);
                put(&mut out, ((change << 1) ^ (change >> 63)) as u64);
            }
            dc = entry.dc;
        }
        out
    }

    /// Reads the compact form; takes memory in proportion to `bytes` only.
    ///
    /// # Errors
    /// If the bytes are not what [`EntryPoints::to_bytes`] writes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, JpegError> {
        let mut at = 1;
        let bad = |offset, what| JpegError::EntryPoints { offset, what };
        if bytes.first() != Some(&VERSION) {
            return Err(bad(0, "unknown version"));
        }
        let mut get = || take(bytes, &mut at).ok_or(bad(bytes.len(), "the index is cut off or a number is too long"));
        let [every, columns, rows, components] = [get()?, get()?, get()?, get()?];
        let is_sound = (1..=1 << 16).contains(&columns) && (1..=1 << 16).contains(&rows);
        if !is_sound || !(1..=1 << 16).contains(&every) || !matches!(components, 1 | 3) {
            return Err(bad(1, "impossible sizes"));
        }
        let per_row = columns.div_ceil(every);
        let (count, components) = ((per_row * rows) as usize, components as usize);
        if count * (1 + components) > bytes.len() {
            return Err(bad(bytes.len(), "the index is cut off"));
        }
        let mut entries = Vec::with_capacity(count);
        let (mut place, mut dc) = (0u64, [0i16; 3]);
        for _ in 0..count {
            place = place.saturating_add(get()?);
            for last in dc.iter_mut().take(components) {
                let code = get()?;
                let change = (code >> 1) as i64 ^ -((code & 1) as i64);
                *last = i16::try_from(i64::from(*last).saturating_add(change))
                    .map_err(|_| bad(bytes.len(), "a DC prediction beyond 16 bits"))?;
            }
            let offset = u32::try_from(place / 8).map_err(|_| bad(bytes.len(), "an offset beyond 4 GiB"))?;
            entries.push(Entry { offset, bit: (place % 8) as u8, dc });
        }
        if at != bytes.len() {
            return Err(bad(at, "bytes after the last entry"));
        }
        let (every, columns, rows) = (every as usize, columns as usize, rows as usize);
        Ok(Self { every, columns, rows, components, per_row: per_row as usize, entries })
    }
}

/// Appends a number, 7 bits per byte.
fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads a number of at most 9 groups.
fn take(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
