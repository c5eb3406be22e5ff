//! What of an image is wanted: Pillow's modes, by their names in Python.

use super::pixels::Stored;

/// The channels of an image, and what a number of one is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Red, green and blue.
    #[default]
    Rgb,
    /// Grey.
    L,
    /// Grey and alpha.
    La,
    /// Red, green, blue and alpha.
    Rgba,
    /// Grey of 16 bits.
    I16,
    /// Indices into the file's palette.
    P,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 6] = [Self::Rgb, Self::L, Self::La, Self::Rgba, Self::I16, Self::P];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rgb => "RGB",
            Self::L => "L",
            Self::La => "LA",
            Self::Rgba => "RGBA",
            Self::I16 => "I16",
            Self::P => "P",
        }
    }

    /// The mode of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// How pixels of this mode are held.
    #[must_use]
    pub const fn stored(self) -> Stored {
        match self {
            Self::Rgb => Stored::Rgb8,
            Self::L => Stored::Grey8,
            Self::La => Stored::GreyAlpha8,
            Self::Rgba => Stored::Rgba8,
            Self::I16 => Stored::Grey16,
            Self::P => Stored::Index8,
        }
    }

    /// Bytes of a pixel; each has a plane of its own while an image is resized.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.stored().size()
    }

    /// Numbers of a pixel.
    #[must_use]
    pub const fn channels(self) -> usize {
        if self.is_wide() { 1 } else { self.bytes() }
    }

    /// Whether a number takes two bytes.
    #[must_use]
    pub const fn is_wide(self) -> bool {
        matches!(self, Self::I16)
    }
}
