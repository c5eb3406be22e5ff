//! Native kernels of Penstock.
//!
//! Everything here is a function from buffers to buffers: no kernel knows of Python, of files' meaning or of
//! time. `bind` is the only module that mentions Python and is left out without the `python` feature.

#[cfg(feature = "python")]
mod bind;
pub mod crc32c;
pub mod example;
pub mod files;
pub mod framing;
pub mod gather;
pub mod geometry;
pub mod image;
pub mod jpeg;
pub mod keys;
pub mod order;
pub mod permute;
pub mod pick;
pub mod pool;
mod prefetch;
