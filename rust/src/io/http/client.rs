//! A client for one purpose: receives exactly the requested bytes of an object into their destination.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use http::Uri;
use rustls::ClientConfig;
use tokio::time::{sleep, timeout};

use super::body::{broken, drain, receive, receive_chunks};
use super::connect::{Addresses, Origin};
use super::connection::{Connection, tls_config};
use super::head::{Coding, Head, request};
use super::{Job, Outcome};

/// The longest head of a response.
const HEAD_BYTES: usize = 16 << 10;
const PARTIAL_CONTENT: u16 = 206;
/// How often a request looks whether it is still wanted, however long its server says nothing.
const LOOK: Duration = Duration::from_millis(100);

/// A client with its connections, for many requests at once, all in one runtime.
///
/// It trusts the certificates that the system trusts, uses no proxy, follows no redirect and sends no cookies.
pub struct Client {
    timeout: Duration,
    is_plain: bool,
    kept_for: Duration,
    addresses: Addresses,
    tls: OnceLock<Result<Arc<ClientConfig>, String>>,
    idle: Mutex<HashMap<Origin, Vec<(Instant, Connection)>>>,
    closed: AtomicBool,
}

/// The parts of a request's text.
struct Target {
    origin: Origin,
    text: String,
}

/// Why there is no usable response.
enum Failure {
    /// No byte arrived.
    Unanswered(io::Error),
    /// With this outcome.
    Ended(Outcome),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client {
    /// A client whose requests take no longer than `timeout`, from the first look-up to the last byte. It closes connections that
    /// were idle for `kept_for`. `is_plain`: for file servers, whose compressed responses or web pages are errors; a store's headers
    /// are those that were stored with the object.
    pub fn new(timeout: Duration, kept_for: Duration, is_plain: bool) -> Self {
        Self {
            timeout,
            is_plain,
            kept_for,
            addresses: Addresses::default(),
            tls: OnceLock::new(),
            idle: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Receives a job's bytes into their destination; hangs up once nobody wants them, so that no server goes on for nobody.
    pub async fn get(&self, job: &Job) -> Outcome {
        let Some(target) = target(job) else { return Outcome::Unreachable("no URL for HTTP".into()) };
        let mut asked = pin!(timeout(self.timeout, self.attempt(&target, job)));
        let mut unwanted = pin!(until_unwanted(job));
        poll_fn(|context| match asked.as_mut().poll(context) {
            Poll::Ready(outcome) => Poll::Ready(outcome.unwrap_or(Outcome::Slow)),
            Poll::Pending => unwanted.as_mut().poll(context).map(|()| Outcome::Dropped),
        })
        .await
    }

    async fn attempt(&self, target: &Target, job: &Job) -> Outcome {
        // A server may close an idle connection at the moment when it is reused.
        while let Some(connection) = self.kept(&target.origin) {
            match self.ask(connection, target, job).await {
                Ok(outcome) | Err(Failure::Ended(outcome)) => return outcome,
                Err(Failure::Unanswered(_)) => {}
            }
        }
        let asked = match self.connection(&target.origin).await {
            Ok(connection) => self.ask(connection, target, job).await,
            Err(error) => Err(Failure::Unanswered(error)),
        };
        match asked {
            Ok(outcome) | Err(Failure::Ended(outcome)) => outcome,
            Err(Failure::Unanswered(error)) => unanswered(&error),
        }
    }

    /// Opens no more connections, and closes idle ones.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.close_idle();
    }

    /// Closes idle connections.
    pub fn close_idle(&self) {
        lock(&self.idle).clear();
    }

    /// An idle connection, to be reused.
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

    async fn connection(&self, origin: &Origin) -> io::Result<Connection> {
        let stream = self.addresses.connect(origin).await?;
        if self.closed.load(Ordering::SeqCst) {
            return Err(io::Error::other("closed"));
        }
        if !origin.is_tls {
            return Ok(Connection::plain(stream));
        }
        let config = self.tls.get_or_init(|| tls_config().map(Arc::new).map_err(|error| error.to_string()));
        let config = config.as_ref().map_err(|found| io::Error::other(found.clone()))?;
        Connection::secure(stream, &origin.host, Arc::clone(config)).await
    }

    async fn ask(&self, mut connection: Connection, target: &Target, job: &Job) -> Result<Outcome, Failure> {
        connection.send(target.text.as_bytes()).await.map_err(Failure::Unanswered)?;
        let mut begin = vec![0; HEAD_BYTES];
        let (head, received) = read_head(&mut connection, &mut begin).await?;
        let body = &begin[head.size..received];
        if !is_exact(&head, job) || head.coding == Coding::Other || (self.is_plain && head.is_odd) {
            if head.keeps && drain(&mut connection, &head, body.len() as u64).await {
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
            return Ok(broken("the response has more bytes than requested"));
        }
        let ended = match head.coding {
            Coding::Chunks => receive_chunks(&mut connection, job, body).await,
            _ => receive(&mut connection, job, body).await,
        };
        let has_end = head.length.is_some() || head.coding == Coding::Chunks;
        if head.keeps && has_end && ended == Outcome::Landed {
            self.keep(&target.origin, connection);
        }
        Ok(ended)
    }
}

async fn until_unwanted(job: &Job) {
    while job.is_wanted() {
        sleep(LOOK).await;
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

/// The head of the response, and how many bytes arrived with it.
async fn read_head(connection: &mut Connection, begin: &mut [u8]) -> Result<(Head, usize), Failure> {
    let unreachable = |found: &str| Failure::Ended(Outcome::Unreachable(found.into()));
    let mut received = 0;
    loop {
        if received == begin.len() {
            return Err(unreachable("the response's head is too long"));
        }
        match connection.read_some(&mut begin[received..]).await {
            Ok(0) if received == 0 => return Err(Failure::Unanswered(io::ErrorKind::UnexpectedEof.into())),
            Ok(0) => return Err(unreachable("the response ended in its head")),
            Ok(count) => received += count,
            Err(error) if received == 0 => return Err(Failure::Unanswered(error)),
            Err(error) => return Err(Failure::Ended(unanswered(&error))),
        }
        match Head::parse(&begin[..received]) {
            Ok(Some(head)) => return Ok((head, received)),
            Ok(None) => {}
            Err(error) => return Err(unreachable(&format!("not HTTP: {error}"))),
        }
    }
}

/// Whether the response's head states exactly the requested range of the right object.
fn is_exact(head: &Head, job: &Job) -> bool {
    head.status == PARTIAL_CONTENT && head.range == Some((job.range(), job.size)) && head.is_of(&job.version)
}

/// Without the URL, which may hold a signature.
fn unanswered(error: &io::Error) -> Outcome {
    Outcome::Unreachable(error.to_string())
}
