//! Bytes from outside: folders, files, mapped memory, the cache's packs, and stores by HTTP.

pub mod extents;
pub mod files;
pub mod folders;
pub mod http;
pub mod mapped;
pub mod names;
pub mod sigbus;
pub mod signals;
pub mod stat;
pub mod windows;
