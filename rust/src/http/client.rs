//! A client for one thing: exactly these bytes of this object, received to where they belong.

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use http::Uri;
use rustls::ClientConfig;

use super::chunks::Chunks;
use super::connect::{Addresses, Origin};
use super::connection::{Connection, tls_config};
use super::head::{Coding, Head, request};
use super::{Job, Outcome};

/// An answer's head is no longer.
const HEAD_BYTES: usize = 16 << 10;
/// The body of another answer is read up to this, so that its connection can be used again.
const SHORT_BYTES: u64 = 16 << 10;
/// A short body is not waited for any longer.
const SHORT_TIME: Duration = Duration::from_millis(200);
const PARTIAL_CONTENT: u16 = 206;

/// A client with its connections; for many threads.
///
/// It trusts the certificates that the system trusts, uses no proxy, follows no redirect and sends no cookies.
pub struct Client {
    timeout: Duration,
    is_plain: bool,
    kept_for: Duration,
    addresses: Addresses,
    tls: OnceLock<Result<Arc<ClientConfig>, String>>,
    idle: Mutex<HashMap<Origin, Vec<(Instant, Connection)>>>,
    open: Mutex<Vec<Weak<TcpStream>>>,
    closed: AtomicBool,
}

/// What a request's text is made of.
struct Target {
    origin: Origin,
    text: String,
}

/// Why there is no answer to look at.
enum Failure {
    /// No byte of one came.
    Unanswered(io::Error),
    /// As said.
    Ended(Outcome),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client {
    /// A client whose requests take no longer than `timeout`, from the connection to the last byte; what it waits for the system's
    /// resolver aside. It closes connections that were not used for `kept_for`. `is_plain`: of servers of files, whose answers
    /// that are packed or web pages are others than were asked for; what a store says of an object is what was put there with it.
    pub fn new(timeout: Duration, kept_for: Duration, is_plain: bool) -> Self {
        Self {
            timeout,
            is_plain,
            kept_for,
            addresses: Addresses::default(),
            tls: OnceLock::new(),
            idle: Mutex::default(),
            open: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Gets a job's bytes to where they belong.
    pub fn get(&self, job: &Job, scratch: &mut [u8]) -> Outcome {
        let deadline = Instant::now() + self.timeout;
        let Some(target) = target(job) else { return Outcome::Unreachable("no URL for HTTP".into()) };
        // A server may close a connection that it kept at the moment when it is used again.
        while let Some(connection) = self.kept(&target.origin) {
            match self.ask(connection, &target, job, scratch, deadline) {
                Ok(outcome) | Err(Failure::Ended(outcome)) => return outcome,
                Err(Failure::Unanswered(error)) if error.kind() == io::ErrorKind::TimedOut => return Outcome::Slow,
                Err(Failure::Unanswered(_)) => {}
            }
        }
        let asked = self.connection(&target.origin, deadline).map_err(Failure::Unanswered);
        match asked.and_then(|connection| self.ask(connection, &target, job, scratch, deadline)) {
            Ok(outcome) | Err(Failure::Ended(outcome)) => outcome,
            Err(Failure::Unanswered(error)) => unanswered(&error),
        }
    }

    /// Breaks off what is under way, for good.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.close_idle();
        for stream in lock(&self.open).iter().filter_map(Weak::upgrade) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Closes connections that nobody uses now.
    pub fn close_idle(&self) {
        lock(&self.idle).clear();
    }

    /// A connection that was used before.
    fn kept(&self, origin: &Origin) -> Option<Connection> {
        loop {
            let (since, mut connection) = lock(&self.idle).get_mut(origin)?.pop()?;
            if since.elapsed() < self.kept_for && connection.is_quiet() {
                return Some(connection);
            }
        }
    }

    fn keep(&self, origin: &Origin, connection: Connection) {
        let mut idle = lock(&self.idle);
        idle.retain(|_, of_origin| {
            of_origin.retain(|(since, _)| since.elapsed() < self.kept_for);
            !of_origin.is_empty()
        });
        if !self.closed.load(Ordering::SeqCst) {
            idle.entry(origin.clone()).or_default().push((Instant::now(), connection));
        }
    }

    fn connection(&self, origin: &Origin, deadline: Instant) -> io::Result<Connection> {
        let stream = self.addresses.connect(origin, deadline)?;
        {
            let mut open = lock(&self.open);
            if self.closed.load(Ordering::SeqCst) {
                return Err(io::Error::other("closed"));
            }
            open.retain(|other| other.strong_count() > 0);
            open.push(Arc::downgrade(&stream));
        }
        if !origin.is_tls {
            return Ok(Connection::plain(stream));
        }
        let config = self.tls.get_or_init(|| tls_config().map(Arc::new).map_err(|error| error.to_string()));
        let config = config.as_ref().map_err(|found| io::Error::other(found.clone()))?;
        Connection::secure(stream, &origin.host, Arc::clone(config), deadline)
    }

    fn ask(
        &self,
        mut connection: Connection,
        target: &Target,
        job: &Job,
        scratch: &mut [u8],
        deadline: Instant,
    ) -> Result<Outcome, Failure> {
        connection.send(target.text.as_bytes(), deadline).map_err(Failure::Unanswered)?;
        let mut begin = [0; HEAD_BYTES];
        let (head, received) = read_head(&mut connection, &mut begin, deadline)?;
        let body = &begin[head.size..received];
        if !is_exact(&head, job) || head.coding == Coding::Other || (self.is_plain && head.is_odd) {
            if head.keeps && drain(&mut connection, &head, body.len() as u64, scratch, deadline) {
                self.keep(&target.origin, connection);
            }
            return Ok(match head.status {
                300..=399 if !head.location.is_empty() => Outcome::Moved(head.status, head.location),
                status => Outcome::Other(status),
            });
        }
        if let Some(length) = head.length.filter(|length| *length != job.length) {
            return Ok(broken(&format!("{length} bytes instead of {}", job.length)));
        }
        if head.coding == Coding::Plain && (body.len() as u64) > job.length {
            return Ok(broken("more bytes came than were asked for"));
        }
        let ended = match head.coding {
            Coding::Chunks => receive_chunks(&mut connection, job, body, scratch, deadline),
            _ => receive(&mut connection, job, body, scratch, deadline),
        };
        let has_end = head.length.is_some() || head.coding == Coding::Chunks;
        if head.keeps && has_end && ended == Outcome::Landed {
            self.keep(&target.origin, connection);
        }
        Ok(ended)
    }
}

fn target(job: &Job) -> Option<Target> {
    let url: Uri = job.url.parse().ok()?;
    let (authority, is_tls) = (url.authority()?, url.scheme_str()? == "https");
    if authority.as_str().contains('@') || !(is_tls || url.scheme_str()? == "http") {
        return None;
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let has_port = authority.host().len() < authority.as_str().len();
    let port = if has_port { authority.port_u16()? } else { [80, 443][usize::from(is_tls)] };
    let text = request(url.path_and_query()?.as_str(), authority.as_str(), &job.range(), &job.version)?;
    Some(Target { origin: Origin { is_tls, host, port }, text })
}

/// The head of the answer, and how many bytes came with it.
fn read_head(connection: &mut Connection, begin: &mut [u8], deadline: Instant) -> Result<(Head, usize), Failure> {
    let unreachable = |found: &str| Failure::Ended(Outcome::Unreachable(found.into()));
    let mut received = 0;
    loop {
        if received == begin.len() {
            return Err(unreachable("the answer's head is too long"));
        }
        match connection.read_some(&mut begin[received..], 1, deadline) {
            Ok(0) if received == 0 => return Err(Failure::Unanswered(io::ErrorKind::UnexpectedEof.into())),
            Ok(0) => return Err(unreachable("the answer ended in its head")),
            Ok(count) => received += count,
            Err(error) if received == 0 => return Err(Failure::Unanswered(error)),
            Err(error) => return Err(Failure::Ended(unanswered(&error))),
        }
        match Head::parse(&begin[..received]) {
            Ok(Some(head)) => return Ok((head, received)),
            Ok(None) => {}
            Err(error) => return Err(unreachable(&format!("no HTTP: {error}"))),
        }
    }
}

/// Whether the answer says that it brings exactly the range of the object that is meant.
fn is_exact(head: &Head, job: &Job) -> bool {
    head.status == PARTIAL_CONTENT && head.range == Some((job.range(), job.size)) && head.is_of(&job.version)
}

/// Reads the rest of a short body, of which `received` bytes came; whether that is all of it.
fn drain(connection: &mut Connection, head: &Head, mut received: u64, scratch: &mut [u8], deadline: Instant) -> bool {
    let length = match head.status {
        100..=199 => return false, // the answer is still to come
        204 | 304 => 0,
        _ => head.length.unwrap_or(u64::MAX),
    };
    if length > SHORT_BYTES {
        return false;
    }
    let deadline = deadline.min(Instant::now() + SHORT_TIME);
    while received < length {
        match connection.read_some(scratch, 1, deadline) {
            Ok(count) if count > 0 => received += count as u64,
            _ => return false,
        }
    }
    received == length
}

/// Receives the body, of which `body` came with the head.
fn receive(connection: &mut Connection, job: &Job, body: &[u8], scratch: &mut [u8], deadline: Instant) -> Outcome {
    if !job.put(0, body) {
        return Outcome::Dropped;
    }
    let mut offset = body.len() as u64;
    while offset < job.length {
        let left = job.length - offset;
        let lent = job.lend(offset, |out| connection.read(out));
        let is_lent = lent.is_some();
        let read = lent.unwrap_or_else(|| {
            let most = scratch.len().min(left as usize);
            connection.read(&mut scratch[..most])
        });
        let count = match read {
            Ok(0) => return broken("the answer ended early"),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => match connection.wait(left as usize, deadline) {
                Ok(()) => continue,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Outcome::Slow,
                Err(error) => return broken(&error.to_string()),
            },
            Err(error) => return broken(&error.to_string()),
        };
        if !is_lent && !job.put(offset, &scratch[..count]) {
            return Outcome::Dropped;
        }
        offset += count as u64;
    }
    job.finish()
}

/// Receives a body in chunks, of which `body` came with the head. All of it, so that the connection can be used again.
fn receive_chunks(
    connection: &mut Connection,
    job: &Job,
    body: &[u8],
    scratch: &mut [u8],
    deadline: Instant,
) -> Outcome {
    let (mut chunks, mut offset) = (Chunks::default(), 0);
    match take_chunks(&mut chunks, body, job, &mut offset) {
        Ok(false) => {}
        ended => return ended.map_or_else(|outcome| outcome, |_| job.finish()),
    }
    loop {
        let left = usize::try_from(job.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = match connection.read_some(scratch, left, deadline) {
            Ok(0) => return broken("the answer ended early"),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Outcome::Slow,
            Err(error) => return broken(&error.to_string()),
        };
        match take_chunks(&mut chunks, &scratch[..count], job, &mut offset) {
            Ok(false) => {}
            ended => return ended.map_or_else(|outcome| outcome, |_| job.finish()),
        }
    }
}

/// Puts what came of a body from `offset` on where it belongs; whether that was the end.
fn take_chunks(chunks: &mut Chunks, mut bytes: &[u8], job: &Job, offset: &mut u64) -> Result<bool, Outcome> {
    let malformed = |_| broken("no chunks where the answer's head says so");
    while let Some(piece) = chunks.piece(&mut bytes).map_err(malformed)? {
        if piece.len() as u64 > job.length - *offset {
            return Err(broken("more bytes came than were asked for"));
        }
        if !job.put(*offset, piece) {
            return Err(Outcome::Dropped);
        }
        *offset += piece.len() as u64;
    }
    match (chunks.is_done(), *offset == job.length, bytes.is_empty()) {
        (false, ..) => Ok(false),
        (true, true, true) => Ok(true),
        (true, true, false) => Err(broken("more came than the last chunk")),
        (true, false, _) => Err(broken(&format!("{offset} bytes instead of {}", job.length))),
    }
}

/// Without the URL, which may hold a signature.
fn unanswered(error: &io::Error) -> Outcome {
    match error.kind() {
        io::ErrorKind::TimedOut => Outcome::Slow,
        _ => Outcome::Unreachable(error.to_string()),
    }
}

fn broken(found: &str) -> Outcome {
    Outcome::Broken(found.into())
}
