//! Ranges of objects over HTTP: asked for by threads of their own, checked, and received into the memory where they belong.
//!
//! Nothing is decided here: what is not an answer with exactly the bytes that were asked for is told, and asked again elsewhere.

mod landing;
mod lane;
#[cfg(test)]
mod tests;

use std::io::{self, Read};
use std::ops::Range;
use std::time::Duration;

use ureq::http::{Response, header};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, Timeout};

pub use landing::{Landing, Place};
pub use lane::{Done, Job, Lane, Part};

/// Connections that are kept open to all hosts together: as many as requests may be in flight.
const KEPT_CONNECTIONS: usize = 512;
/// What is received at once; it should stay in the nearer caches.
const RECEIVED_BYTES: usize = 128 << 10;
const PARTIAL_CONTENT: u16 = 206;

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All bytes lie where they belong.
    Landed,
    /// Nobody wants it any more.
    Dropped,
    /// Another answer than was asked for, of this status; or of another object.
    Other(u16),
    /// The server was not reached, or spoke no HTTP.
    Unreachable(String),
    /// It took too long.
    Slow,
    /// The answer broke off.
    Broken(String),
}

/// A client with its connections; for many threads.
struct Client {
    agent: Agent,
}

impl Client {
    /// A client whose requests take no longer than `timeout`, from the connection to the last byte.
    ///
    /// It trusts the certificates that the system trusts, uses no proxy, follows no redirect and sends no cookies.
    fn new(timeout: Duration) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(timeout))
            .max_idle_connections(KEPT_CONNECTIONS)
            .max_idle_connections_per_host(KEPT_CONNECTIONS)
            .input_buffer_size(RECEIVED_BYTES)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
            .user_agent(concat!("penstock/", env!("CARGO_PKG_VERSION")))
            .build();
        Self { agent: config.new_agent() }
    }

    /// Gets a job's bytes to where they belong.
    fn get(&self, job: &Job, scratch: &mut [u8]) -> Outcome {
        let range = job.range();
        let mut request =
            self.agent.get(&job.url).header(header::RANGE, format!("bytes={}-{}", range.start, range.end - 1));
        if !job.etag.is_empty() {
            request = request.header(header::IF_MATCH, &job.etag);
        }
        let mut response = match request.call() {
            Ok(response) => response,
            Err(error) => return unanswered(error),
        };
        if !is_exact(&response, &range, job) {
            return Outcome::Other(response.status().as_u16());
        }
        receive(response.body_mut(), job, scratch)
    }
}

fn field<'a>(response: &'a Response<Body>, name: &header::HeaderName) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// Whether the answer says that it brings exactly this range of the object that is meant.
fn is_exact(response: &Response<Body>, range: &Range<u64>, job: &Job) -> bool {
    let brought = || {
        let (brought, size) = field(response, &header::CONTENT_RANGE)?.strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = brought.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?, size.parse().ok()?))
    };
    let is_coded =
        || field(response, &header::CONTENT_ENCODING).is_some_and(|code| !code.eq_ignore_ascii_case("identity"));
    let is_same = || bare(field(response, &header::ETAG).unwrap_or("")) == bare(&job.etag);
    response.status().as_u16() == PARTIAL_CONTENT
        && brought() == Some((range.start, range.end - 1, job.size))
        && !is_coded()
        && (job.etag.is_empty() || is_same())
}

/// An `ETag` without what listings leave out.
fn bare(etag: &str) -> &str {
    etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"')
}

fn receive(body: &mut Body, job: &Job, scratch: &mut [u8]) -> Outcome {
    let mut reader = body.as_reader();
    let (mut offset, length) = (0, job.length);
    loop {
        match reader.read(scratch) {
            Ok(0) if offset == length => return job.finish(),
            Ok(0) => return Outcome::Broken("the answer ended early".into()),
            Ok(count) if offset + count as u64 > length => {
                return Outcome::Broken("more bytes came than the answer's head says".into());
            }
            Ok(count) => {
                if !job.put(offset, &scratch[..count]) {
                    return Outcome::Dropped;
                }
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return broken(&error),
        }
    }
}

/// Without the URL, which may hold a signature.
fn unanswered(error: ureq::Error) -> Outcome {
    match error {
        ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => {
            Outcome::Unreachable("no connection in time".into())
        }
        ureq::Error::Timeout(_) => Outcome::Slow,
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => Outcome::Slow,
        ureq::Error::Io(error) => Outcome::Unreachable(error.to_string()),
        ureq::Error::HostNotFound => Outcome::Unreachable("no such host".into()),
        ureq::Error::BadUri(_) => Outcome::Unreachable("no URL for HTTP".into()),
        other => Outcome::Unreachable(other.to_string()),
    }
}

fn broken(error: &io::Error) -> Outcome {
    let is_timeout = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
    match (error.kind(), is_timeout) {
        (io::ErrorKind::TimedOut, _) | (_, Some(ureq::Error::Timeout(_))) => Outcome::Slow,
        (io::ErrorKind::UnexpectedEof, _) => Outcome::Broken("the answer ended early".into()),
        _ => Outcome::Broken(error.to_string()),
    }
}
