//! What every room needs: keys and draws, threads, columns and rows in memory.

pub mod by_source;
pub mod columns;
pub mod crc32c;
pub mod draws;
pub mod dtype;
pub mod errors;
pub mod gather;
pub mod geometry;
pub mod keys;
pub mod pack;
pub mod pool;
pub(crate) mod prefetch;
pub mod rows;
