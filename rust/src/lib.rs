//! Native kernels of Penstock.
//!
//! Everything here is a function from buffers to buffers (but for `io`, which fills them): no kernel knows of Python, of files'
//! meaning or of time. A room uses those below it:
//!
//! ```text
//! bind                        Python's module `_core`; left out without the feature `python`
//! image      records   table  pixels; what each format's bytes become; columns of tables
//! text                        columns of texts
//! jpeg       io      order    our decoder; files and stores; which row comes when
//! core                        rows and columns in memory, keys, threads, errors
//! ```

#[cfg(feature = "python")]
mod bind;
pub mod core;
pub mod image;
pub mod io;
pub mod jpeg;
pub mod order;
pub mod records;
pub mod table;
pub mod text;
