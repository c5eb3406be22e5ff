//! What of an image is wanted: Pillow's modes, by their names in Python; and how decoders store pixels.

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

/// How the pixels of a decoded image are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// One byte.
    Grey8,
    /// An index into a palette.
    Index8,
    /// Grey and alpha.
    GreyAlpha8,
    /// Three bytes.
    Rgb8,
    /// Red, green, blue and alpha.
    Rgba8,
    /// 16 bits that stand for themselves: values above 255 become 255 (Pillow's mode "I;16").
    Grey16,
    /// As `Grey16`, with 16 bits of alpha.
    GreyAlpha16Clipped,
    /// Grey and alpha of 16 bits; the upper bytes count.
    GreyAlpha16,
    /// The upper bytes count.
    Rgb16,
    /// The upper bytes count.
    Rgba16,
    /// Adobe's inverted cyan, magenta, yellow and black.
    Cmyk,
    /// As `Cmyk`, with the first three as luma and chroma.
    Ycck,
}

impl Stored {
    /// Bytes of one pixel.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Grey8 | Self::Index8 => 1,
            Self::GreyAlpha8 | Self::Grey16 => 2,
            Self::Rgb8 => 3,
            Self::Rgba8 | Self::GreyAlpha16Clipped | Self::GreyAlpha16 | Self::Cmyk | Self::Ycck => 4,
            Self::Rgb16 => 6,
            Self::Rgba16 => 8,
        }
    }
}
