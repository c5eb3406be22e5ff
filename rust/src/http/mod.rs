//! Ranges of objects over HTTP: asked for many at once by a few threads, checked, and received into the memory where they belong.
//!
//! Nothing is decided here: what is not an answer with exactly the bytes that were asked for is told, and asked again elsewhere.

mod body;
pub mod chunks;
mod client;
mod connect;
mod connection;
pub mod head;
mod job;
mod landing;
mod lane;
mod socket;
#[cfg(test)]
mod tests;

pub use job::{Job, Part};
pub use landing::{Landing, Place};
pub use lane::{Done, Lane};

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All bytes lie where they belong.
    Landed,
    /// Nobody wants it any more.
    Dropped,
    /// Another answer than was asked for, of this status; or of another object.
    Other(u16),
    /// The server sends the request on: its status, and where to.
    Moved(u16, String),
    /// The server was not reached, or spoke no HTTP.
    Unreachable(String),
    /// It took too long.
    Slow,
    /// The answer broke off.
    Broken(String),
}
