//! The first directory of a TIFF file, of which EXIF is one, too (TIFF 6.0).

/// A file's bytes, and their order.
pub(super) struct Tiff<'a> {
    data: &'a [u8],
    is_big: bool,
}

impl<'a> Tiff<'a> {
    /// The file, if it begins like one.
    pub(super) fn new(data: &'a [u8]) -> Option<Self> {
        let is_big = match data.get(..4)? {
            b"MM\0*" => true,
            b"II*\0" => false,
            _ => return None,
        };
        Some(Self { data, is_big })
    }

    /// The number of 16 bits at a place.
    pub(super) fn short(&self, at: usize) -> Option<u16> {
        let bytes = *self.data.get(at..)?.first_chunk()?;
        Some(if self.is_big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    fn long(&self, at: usize) -> Option<u32> {
        let bytes = *self.data.get(at..)?.first_chunk()?;
        Some(if self.is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    /// Where the entry of a tag begins.
    pub(super) fn entry(&self, tag: u16) -> Option<usize> {
        let directory = self.long(4)? as usize;
        let entries = usize::from(self.short(directory)?);
        (0..entries)
            .map(|index| directory + 2 + index * 12)
            .take_while(|&at| at < self.data.len())
            .find(|&at| self.short(at) == Some(tag))
    }

    /// The number of a tag.
    pub(super) fn number(&self, tag: u16) -> Option<u32> {
        let at = self.entry(tag)?;
        match self.short(at + 2)? {
            3 => self.short(at + 8).map(u32::from),
            4 => self.long(at + 8),
            _ => None,
        }
    }
}
