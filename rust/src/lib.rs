//! Native kernels of Penstock.
//!
//! Everything here is a function from buffers to buffers (but for `files`, `mapped` and `http`, which fill them): no kernel knows of
//! Python, of files' meaning or of time. `bind` is the only module that mentions Python and is left out without the `python` feature.

#[cfg(feature = "python")]
mod bind;
pub mod columns;
pub mod crc32c;
pub mod divide;
pub mod draws;
pub mod example;
pub mod fields;
pub mod files;
pub mod framing;
pub mod gather;
pub mod geometry;
pub mod http;
pub mod image;
pub mod jpeg;
pub mod json;
pub mod kept;
pub mod keys;
pub mod lines;
pub mod listed;
pub mod lost;
pub mod mapped;
pub mod order;
pub mod pack;
pub mod parquet;
pub mod permute;
pub mod pool;
mod prefetch;
pub mod rows;
pub mod steps;
pub mod tar;
pub mod walk;
pub mod windows;
