//! Servers: their identity, their addresses, and streams to them.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// How long a host's addresses are reused, also the answer that it has none.
const REMEMBERED: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The identity of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    pub is_tls: bool,
    pub host: String,
    pub port: u16,
}

type Known = HashMap<Origin, (Instant, Vec<SocketAddr>)>;

/// Addresses of servers, and when they were looked up.
#[derive(Default)]
pub struct Addresses {
    known: Arc<Mutex<Known>>,
    turn: AtomicUsize,
}

impl Addresses {
    /// A stream to one of a server's addresses, each in turn.
    pub async fn connect(&self, origin: &Origin) -> io::Result<TcpStream> {
        let addresses = in_turn(self.of(origin).await, self.turn.fetch_add(1, Ordering::Relaxed));
        let until = Instant::now() + CONNECT_TIMEOUT;
        let mut failed = io::Error::other("no such host");
        for (number, address) in addresses.iter().enumerate() {
            let left = until.saturating_duration_since(Instant::now()) / (addresses.len() - number) as u32;
            match timeout(left.max(Duration::from_millis(1)), TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Ok(Err(error)) if error.kind() != io::ErrorKind::TimedOut => failed = error,
                Ok(Err(_)) | Err(_) => failed = io::Error::other("no connection in time"),
            }
        }
        Err(failed)
    }

    /// Empty for an unknown host. The system's look-up may take long, so it has its own thread (see `runner::start`). There is only one,
    /// so that those who wait for it find what others have looked up.
    async fn of(&self, origin: &Origin) -> Vec<SocketAddr> {
        if let Some(found) = known(&self.known, origin) {
            return found;
        }
        let (all, origin) = (Arc::clone(&self.known), origin.clone());
        spawn_blocking(move || look_up(&all, origin)).await.unwrap_or_default()
    }
}

fn lock(all: &Mutex<Known>) -> MutexGuard<'_, Known> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

fn known(all: &Mutex<Known>, origin: &Origin) -> Option<Vec<SocketAddr>> {
    lock(all).get(origin).filter(|(since, _)| since.elapsed() < REMEMBERED).map(|(_, found)| found.clone())
}

/// Looks the host up, unless another task has done so meanwhile.
fn look_up(all: &Mutex<Known>, origin: Origin) -> Vec<SocketAddr> {
    if let Some(found) = known(all, &origin) {
        return found;
    }
    let found: Vec<_> =
        (origin.host.as_str(), origin.port).to_socket_addrs().map(Iterator::collect).unwrap_or_default();
    lock(all).insert(origin, (Instant::now(), found.clone()));
    found
}

/// The addresses, those of the family that the system names first at the front; each turn starts with another one.
pub(super) fn in_turn(addresses: Vec<SocketAddr>, turn: usize) -> Vec<SocketAddr> {
    let is_ipv6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut first, others): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|one| one.is_ipv6() == is_ipv6);
    let count = first.len().max(1);
    first.rotate_left(turn % count);
    first.extend(others);
    first
}
