//! A whole image in planes: what ops work on that need more of it than a row.

use super::fault::Fault;
use super::limits::{KEEP_BYTES, zeroed};
use super::resample::{Planes, pitch_of};

/// A whole image of one to four bytes a pixel. Each row holds its planes, one after another, `pitch` bytes apart:
///
/// ```text
/// row 0: red … green … blue …    row 1: red … green … blue …
/// ```
#[derive(Clone, Debug, Default)]
pub struct Canvas {
    bytes: Vec<u8>,
    size: (u32, u32),
    planes: usize,
    pitch: usize,
}

impl Canvas {
    /// Gives it a size; what stands in it then means nothing.
    ///
    /// # Errors
    /// If the process may not have that much memory.
    pub fn reset(&mut self, size: (u32, u32), planes: usize) -> Result<(), Fault> {
        let pitch = pitch_of(size.0 as usize);
        zeroed(&mut self.bytes, size.1 as usize * planes * pitch)?;
        (self.size, self.planes, self.pitch) = (size, planes, pitch);
        Ok(())
    }

    /// Gives it the size and planes of another one; see [`Self::reset`].
    ///
    /// # Errors
    /// As those of [`Self::reset`].
    pub fn reset_as(&mut self, other: &Self) -> Result<(), Fault> {
        self.reset(other.size, other.planes)
    }

    /// Becomes a copy of another one.
    ///
    /// # Errors
    /// As those of [`Self::reset`].
    pub fn copy_from(&mut self, other: &Self) -> Result<(), Fault> {
        self.reset_as(other)?;
        self.bytes[..other.used()].copy_from_slice(&other.bytes[..other.used()]);
        Ok(())
    }

    /// Columns and rows.
    #[must_use]
    pub const fn size(&self) -> (u32, u32) {
        self.size
    }

    /// Columns.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.size.0 as usize
    }

    /// Rows.
    #[must_use]
    pub const fn height(&self) -> usize {
        self.size.1 as usize
    }

    /// Bytes of a pixel.
    #[must_use]
    pub const fn planes(&self) -> usize {
        self.planes
    }

    /// Bytes from one plane of a row to the next.
    #[must_use]
    pub const fn pitch(&self) -> usize {
        self.pitch
    }

    /// Bytes from one row to the next.
    #[must_use]
    pub const fn line(&self) -> usize {
        self.planes * self.pitch
    }

    const fn used(&self) -> usize {
        self.line() * self.size.1 as usize
    }

    /// All rows; see [`Canvas`] for where a number stands.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used()]
    }

    /// As [`Self::bytes`], to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let used = self.used();
        &mut self.bytes[..used]
    }

    /// A row.
    #[must_use]
    pub fn row(&self, y: usize) -> Planes<'_> {
        Planes { bytes: &self.bytes[y * self.line()..][..self.line()], pitch: self.pitch, width: self.width() }
    }

    /// A row's planes, each a pitch long.
    pub fn row_mut(&mut self, y: usize) -> &mut [u8] {
        let line = self.line();
        &mut self.bytes[y * line..][..line]
    }

    /// One plane of a row.
    #[must_use]
    pub fn plane(&self, y: usize, plane: usize) -> &[u8] {
        &self.bytes[y * self.line() + plane * self.pitch..][..self.width()]
    }

    /// As [`Self::plane`], to be changed.
    pub fn plane_mut(&mut self, y: usize, plane: usize) -> &mut [u8] {
        let (start, width) = (y * self.line() + plane * self.pitch, self.width());
        &mut self.bytes[start..][..width]
    }

    /// The planes of every row, in order: row after row, and in each plane after plane.
    pub fn each_plane(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes().chunks_exact(self.pitch.max(1)).map(|plane| &plane[..self.width()])
    }

    /// As [`Self::each_plane`], to be changed.
    pub fn each_plane_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let (width, pitch) = (self.width(), self.pitch.max(1));
        self.bytes_mut().chunks_exact_mut(pitch).map(move |plane| &mut plane[..width])
    }

    /// Gives back memory that is too large to be kept for the next image.
    pub fn shrink(&mut self) {
        if self.bytes.capacity() > KEEP_BYTES {
            *self = Self::default();
        }
    }
}
