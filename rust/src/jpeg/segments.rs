//! Markers and their segments (ITU T.81, Annex B).

use super::JpegError;
use super::frame::{Colour, Component, Frame, Scan, Tables};
use super::huffman::HuffmanSpec;

/// Zigzag position to natural position (row * 8 + column), T.81 figure A.6.
pub const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21,
    28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,
    47, 55, 62, 63,
];

/// What stopped the walk over segments.
pub(super) enum Stop {
    Scan(Scan),
    End,
}

/// Walks over segments, keeping what they say.
pub(super) struct Walker<'a> {
    data: &'a [u8],
    pub pos: usize,
    pub tables: Tables,
    pub frame: Option<Frame>,
    jfif: bool,
    adobe: Option<u8>,
}

impl<'a> Walker<'a> {
    /// At any byte before a marker: behind the start of the image, or behind the coefficients of a scan.
    pub fn new(data: &'a [u8], pos: usize, tables: Tables) -> Self {
        Self { data, pos, tables, frame: None, jfif: false, adobe: None }
    }

    /// Reads segments until a scan starts or the image ends. `components` are the frame's, when it was met before.
    pub fn next_scan(&mut self, components: &[Component]) -> Result<Stop, JpegError> {
        loop {
            let marker = self.next_marker()?;
            match marker {
                0xD8 | 0x01 | 0xD0..=0xD7 => continue,
                0xD9 => return Ok(Stop::End),
                _ => {}
            }
            let (start, end) = self.segment()?;
            match marker {
                0xC4 => self.huffman_tables(start, end)?,
                0xDB => self.quantisation_tables(start, end)?,
                0xDD => {
                    self.need(start, end, 2)?;
                    self.tables.restart_interval = u32::from(self.u16(start));
                }
                0xDA => return self.scan(start, end, components).map(Stop::Scan),
                0xC0..=0xCF if marker != 0xC8 && marker != 0xCC => {
                    if self.frame.is_some() || !components.is_empty() {
                        let found = u32::from(marker);
                        return Err(JpegError::Corrupt { offset: start, what: "an image has one frame", found });
                    }
                    self.frame(marker, start, end)?;
                }
                0xE0 => self.jfif |= end - start >= 14 && &self.data[start..start + 5] == b"JFIF\0",
                0xEE if end - start >= 12 && &self.data[start..start + 5] == b"Adobe" => {
                    self.adobe = Some(self.data[start + 11]);
                }
                _ => {}
            }
            self.pos = end;
        }
    }

    /// Skips to the next marker (bytes that are none are passed over, as libjpeg does) and returns its low byte.
    fn next_marker(&mut self) -> Result<u8, JpegError> {
        let ended = JpegError::Truncated { offset: self.data.len(), what: "the list of segments" };
        loop {
            while *self.data.get(self.pos).ok_or(ended.clone())? != 0xFF {
                self.pos += 1;
            }
            while *self.data.get(self.pos).ok_or(ended.clone())? == 0xFF {
                self.pos += 1;
            }
            let marker = self.data[self.pos];
            self.pos += 1;
            if marker != 0 {
                return Ok(marker);
            }
        }
    }

    /// The payload of the segment whose length field is at `pos`: first byte and end.
    fn segment(&mut self) -> Result<(usize, usize), JpegError> {
        let truncated = JpegError::Truncated { offset: self.data.len(), what: "a segment" };
        if self.pos + 2 > self.data.len() {
            return Err(truncated);
        }
        let len = usize::from(self.u16(self.pos));
        if len < 2 {
            return Err(JpegError::Corrupt {
                offset: self.pos,
                what: "a segment is at least 2 bytes",
                found: len as u32,
            });
        }
        let end = self.pos + len;
        if end > self.data.len() {
            return Err(truncated);
        }
        Ok((self.pos + 2, end))
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.data[at], self.data[at + 1]])
    }

    fn need(&self, start: usize, end: usize, bytes: usize) -> Result<(), JpegError> {
        if end.saturating_sub(start) < bytes {
            let found = end.saturating_sub(start) as u32;
            return Err(JpegError::Corrupt { offset: start, what: "the segment is too short for its contents", found });
        }
        Ok(())
    }

    fn quantisation_tables(&mut self, mut at: usize, end: usize) -> Result<(), JpegError> {
        while at < end {
            let (wide, slot) = (self.data[at] >> 4, usize::from(self.data[at] & 15));
            if wide > 1 || slot > 3 {
                let found = u32::from(self.data[at]);
                return Err(JpegError::Corrupt {
                    offset: at,
                    what: "a quantisation table is 0 to 3, of 8 or 16 bits",
                    found,
                });
            }
            at += 1;
            let step = 1 + usize::from(wide);
            self.need(at, end, 64 * step)?;
            let mut table = Box::new([0u16; 64]);
            for (k, &natural) in ZIGZAG.iter().enumerate() {
                let place = at + k * step;
                table[usize::from(natural)] = if wide == 1 { self.u16(place) } else { u16::from(self.data[place]) };
            }
            self.tables.quantisation[slot] = Some(table);
            at += 64 * step;
        }
        Ok(())
    }

    fn huffman_tables(&mut self, mut at: usize, end: usize) -> Result<(), JpegError> {
        while at < end {
            let (class, slot) = (self.data[at] >> 4, usize::from(self.data[at] & 15));
            if class > 1 || slot > 3 {
                let found = u32::from(self.data[at]);
                return Err(JpegError::Corrupt { offset: at, what: "a Huffman table is DC or AC, 0 to 3", found });
            }
            self.need(at + 1, end, 16)?;
            let (spec, len) = HuffmanSpec::parse(&self.data[at + 1..end], at + 1)?;
            let tables = if class == 0 { &mut self.tables.dc } else { &mut self.tables.ac };
            tables[slot] = Some(Box::new(spec));
            at += 1 + len;
        }
        Ok(())
    }

    fn frame(&mut self, marker: u8, at: usize, end: usize) -> Result<(), JpegError> {
        self.need(at, end, 6)?;
        let count = usize::from(self.data[at + 5]);
        self.need(at, end, 6 + 3 * count)?;
        let mut frame = Frame {
            marker,
            precision: self.data[at],
            height: u32::from(self.u16(at + 1)),
            width: u32::from(self.u16(at + 3)),
            count,
            ..Frame::default()
        };
        if frame.width == 0 || count == 0 {
            return Err(JpegError::Corrupt { offset: at, what: "an image has columns and components", found: 0 });
        }
        for (i, part) in frame.components.iter_mut().take(count).enumerate() {
            let place = at + 6 + 3 * i;
            let sampling = self.data[place + 1];
            *part = Component {
                id: self.data[place],
                horizontal: sampling >> 4,
                vertical: sampling & 15,
                quantisation: self.data[place + 2],
            };
            if !(1..=4).contains(&part.horizontal) || !(1..=4).contains(&part.vertical) || part.quantisation > 3 {
                let found = u32::from(sampling) << 8 | u32::from(part.quantisation);
                return Err(JpegError::Corrupt { offset: place, what: "sampling is 1 to 4, tables are 0 to 3", found });
            }
        }
        self.frame = Some(frame);
        Ok(())
    }

    fn scan(&self, at: usize, end: usize, known: &[Component]) -> Result<Scan, JpegError> {
        let components = match &self.frame {
            Some(frame) => &frame.components[..frame.count.min(4)],
            None => known,
        };
        self.need(at, end, 1)?;
        let len = usize::from(self.data[at]);
        self.need(at, end, 4 + 2 * len)?;
        if !(1..=4).contains(&len) {
            return Err(JpegError::Corrupt { offset: at, what: "a scan has 1 to 4 components", found: len as u32 });
        }
        let mut scan = Scan { start: end, len, ..Scan::default() };
        for i in 0..len {
            let (id, tables) = (self.data[at + 1 + 2 * i], self.data[at + 2 + 2 * i]);
            let index = components.iter().position(|c| c.id == id).ok_or(JpegError::Corrupt {
                offset: at + 1 + 2 * i,
                what: "a scan names components of the frame",
                found: u32::from(id),
            })?;
            if tables >> 4 > 3 || tables & 15 > 3 {
                let found = u32::from(tables);
                return Err(JpegError::Corrupt { offset: at + 2 + 2 * i, what: "Huffman tables are 0 to 3", found });
            }
            if scan.components[..i].iter().any(|part| usize::from(part.0) == index) {
                let found = u32::from(id);
                return Err(JpegError::Corrupt {
                    offset: at + 1 + 2 * i,
                    what: "a scan names a component once",
                    found,
                });
            }
            scan.components[i] = (index as u8, tables >> 4, tables & 15);
        }
        Ok(scan)
    }

    /// What the components mean, by libjpeg's rules (JFIF wins over Adobe, Adobe over component names).
    pub fn colour(&self) -> Colour {
        let Some(frame) = &self.frame else { return Colour::Other };
        let names = [frame.components[0].id, frame.components[1].id, frame.components[2].id];
        match (frame.count, self.jfif, self.adobe) {
            (1, ..) => Colour::Grey,
            (3, true, _) => Colour::YCbCr,
            (3, false, Some(transform)) => {
                if transform == 0 {
                    Colour::Rgb
                } else {
                    Colour::YCbCr
                }
            }
            (3, false, None) if names == *b"RGB" => Colour::Rgb,
            (3, false, None) => Colour::YCbCr,
            _ => Colour::Other,
        }
    }
}
