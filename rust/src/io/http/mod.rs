//! Ranges of objects over HTTP: a few threads request many at once, check the responses, and receive them into their destination.
//!
//! Nothing is decided here: a response without exactly the requested bytes is reported, and retried elsewhere.

mod body;
pub mod chunks;
mod client;
mod connect;
mod connection;
pub mod head;
mod job;
mod landing;
mod runner;
mod socket;
#[cfg(test)]
mod tests;

pub use job::{Job, Part};
pub use landing::{Landing, Place};
pub use runner::{Done, Runner};

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All bytes lie where they belong.
    Landed,
    /// Nobody wants it any more.
    Dropped,
    /// A response of another status, or of another object.
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
