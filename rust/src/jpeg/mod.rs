//! Baseline JPEG (ITU T.81): whole images, regions of them, and starting in the middle of a scan.
//!
//! The samples equal libjpeg-turbo's with the accurate integer DCT and fancy upsampling, bit for bit. A region costs
//! what its own MCUs cost: blocks above and beside it are passed over without inverse DCT, with [`EntryPoints`] they are
//! not even looked at, and what lies below is never read. Progressive, arithmetic, lossless, 12-bit and four-component
//! files are not read here; [`Header::is_supported`] tells.
//!
//! The way of the data: `header` (`segments`, `frame`) → `decoder` → `scan`, `mcus` (`queue`) → `bits`, `huffman`, `block` (coefficients) → `idct`
//! (samples in planes, whose places `layout` knows) → `emit` (`upsample`, `colour`: RGB rows for the caller's sink; `planar`:
//! rows of the planes). `recompress` gives pixels what a JPEG would have made of them: `forward` is the way there.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod bits;
mod block;
mod colour;
mod decoder;
mod emit;
mod entry;
mod error;
mod forward;
mod frame;
mod header;
mod huffman;
mod idct;
#[cfg(target_arch = "x86_64")]
mod idct_avx2;
mod kernels;
mod layout;
mod mcu_row_pairs;
mod mcus;
mod planar;
mod queue;
mod recompress;
#[cfg(target_arch = "x86_64")]
mod rows_avx2;
mod scan;
mod segments;
mod tables;
mod upsample;

pub use decoder::Decoder;
pub use entry::EntryPoints;
pub use error::JpegError;
pub use frame::{Colour, Component, Scan, Tables};
pub use header::Header;
pub use huffman::HuffmanSpec;
pub use planar::{PlaneAxis, PlaneRow, ycc_to_rgb};
pub use recompress::{Picture, recompress};

/// How to decode.
#[derive(Clone, Copy, Debug)]
pub struct DecodeOptions<'a> {
    /// Image size divided by this: 1, 2, 4 or 8 (sizes round up). The region counts in scaled pixels.
    pub scale: u8,
    /// Places to start, made by [`EntryPoints::build`] from the same bytes.
    pub entry_points: Option<&'a EntryPoints>,
    /// Triangle filter for chroma (libjpeg's default) instead of repeated samples.
    pub fancy_upsampling: bool,
    /// Grey blocks where the data ends too early, as Pillow with `LOAD_TRUNCATED_IMAGES`, instead of an error.
    pub allow_truncated: bool,
    /// Largest width times height that the header may claim.
    pub max_pixels: u64,
    /// Most bytes of samples that are held at once: all of them, where every component has a scan of its own.
    pub max_bytes: u64,
    /// Never use AVX2 (for tests: the samples are the same).
    pub scalar: bool,
}

impl Default for DecodeOptions<'_> {
    fn default() -> Self {
        Self {
            scale: 1,
            entry_points: None,
            fancy_upsampling: true,
            allow_truncated: false,
            max_pixels: 1 << 28,
            max_bytes: 1 << 30,
            scalar: false,
        }
    }
}
