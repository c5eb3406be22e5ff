//! Native kernels of Penstock.
//!
//! Everything here is a function from buffers to buffers: no kernel knows of Python, of files' meaning or of
//! time. `bind` is the only module that mentions Python and is left out without the `python` feature.

#[cfg(feature = "python")]
mod bind;
pub mod files;
pub mod gather;
pub mod geometry;
pub mod image;
pub mod keys;
pub mod order;
pub mod permute;
pub mod pool;
