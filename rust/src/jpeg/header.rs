//! What precedes the first scan of an image: its shape, its components, its tables.

use super::JpegError;
use super::frame::{Colour, Component, Scan, Tables};
use super::segments::{Stop, Walker};
use crate::core::geometry::Rect;

/// All that precedes the first scan of an image.
#[derive(Clone, Debug)]
pub struct Header {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Low byte of the frame marker: 0xC0 baseline, 0xC1 extended sequential, 0xC2 progressive, …
    pub frame_marker: u8,
    /// Bits per sample.
    pub precision: u8,
    /// Number of components.
    pub component_count: usize,
    /// The components; only the first `component_count` (at most 4) hold anything.
    pub components: [Component; 4],
    /// Meaning of the components.
    pub colour: Colour,
    /// Tables in force at the first scan.
    pub tables: Tables,
    /// The first scan.
    pub scan: Scan,
}

impl Header {
    /// Reads everything up to the first scan. Takes no more memory than a few kilobytes, whatever the file says.
    ///
    /// # Errors
    /// If the segments are cut off or break the rules of T.81. Kinds of JPEG that this decoder does not read are
    /// no error here: see [`Header::is_supported`].
    pub fn parse(data: &[u8]) -> Result<Self, JpegError> {
        if data.len() < 2 {
            return Err(JpegError::Truncated { offset: data.len(), what: "the start marker" });
        }
        if data[..2] != [0xFF, 0xD8] {
            let found = u32::from(data[0]) << 8 | u32::from(data[1]);
            return Err(JpegError::Corrupt { offset: 0, what: "a JPEG file starts with 0xffd8", found });
        }
        let mut walker = Walker::new(data, 2, Tables::default());
        let Stop::Scan(scan) = walker.next_scan(&[])? else {
            return Err(JpegError::Corrupt { offset: walker.pos, what: "a scan comes before the end", found: 0xFFD9 });
        };
        let colour = walker.colour();
        let Some(frame) = walker.frame else {
            return Err(JpegError::Corrupt { offset: scan.start, what: "a frame comes before a scan", found: 0xFFDA });
        };
        Ok(Self {
            width: frame.width,
            height: frame.height,
            frame_marker: frame.marker,
            precision: frame.precision,
            component_count: frame.count,
            components: frame.components,
            colour,
            tables: walker.tables,
            scan,
        })
    }

    /// Whether this decoder reads the image: baseline or extended sequential Huffman, 8 bits, 1 or 3 components
    /// whose sampling factors divide the largest.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        let parts = &self.components[..self.component_count.min(4)];
        let largest = |part: fn(&Component) -> u8| parts.iter().map(part).max().unwrap_or(1);
        let (h, v) = (largest(|c| c.horizontal), largest(|c| c.vertical));
        let blocks: u32 = parts.iter().map(|c| u32::from(c.horizontal) * u32::from(c.vertical)).sum();
        matches!(self.frame_marker, 0xC0 | 0xC1)
            && self.precision == 8
            && self.colour != Colour::Other
            && self.height > 0
            && parts.iter().all(|c| h % c.horizontal == 0 && v % c.vertical == 0)
            && (self.component_count == 1 || self.scan.len == 1 || blocks <= 10)
    }

    /// Width and height of the image at a scale, in pixels.
    #[must_use]
    pub fn scaled_size(&self, scale: u8) -> (u32, u32) {
        let scale = u32::from(scale.max(1));
        (self.width.div_ceil(scale), self.height.div_ceil(scale))
    }

    /// Pixels that an MCU of the image covers: width and height.
    #[must_use]
    pub fn mcu_size(&self) -> (u32, u32) {
        let parts = &self.components[..self.component_count.min(4)];
        if parts.len() == 1 {
            return (8, 8);
        }
        let largest = |part: fn(&Component) -> u8| u32::from(parts.iter().map(part).max().unwrap_or(1));
        (8 * largest(|part| part.horizontal), 8 * largest(|part| part.vertical))
    }

    /// The whole image at a scale.
    #[must_use]
    pub fn whole(&self, scale: u8) -> Rect {
        let (width, height) = self.scaled_size(scale);
        Rect { x: 0, y: 0, width, height }
    }
}
