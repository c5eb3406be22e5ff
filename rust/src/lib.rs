//! Native kernels of Penstock.
//!
//! Everything here is a function from buffers to buffers (but for `io`, which fills them): no kernel knows of
//! Python, of files' meaning or of time. `bind` is the only module that mentions Python and is left out without the `python` feature.

#[cfg(feature = "python")]
mod bind;
pub mod core;
pub mod image;
pub mod io;
pub mod jpeg;
pub mod order;
pub mod records;
