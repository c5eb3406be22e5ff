//! Ranges of objects over HTTP: asked for by threads of their own, checked, and received into the memory where they belong.
//!
//! Nothing is decided here: what is not an answer with exactly the bytes that were asked for is told, and asked again elsewhere.

pub mod chunks;
mod client;
mod connect;
mod connection;
pub mod head;
mod landing;
mod lane;
mod socket;
#[cfg(test)]
mod tests;

pub use landing::{Landing, Place};
pub use lane::{Done, Job, Lane, Part};

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
