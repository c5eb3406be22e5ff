//! Which server is meant, where it is, and a stream to it.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A host's addresses are used for so long; that it has none is believed as long.
const REMEMBERED: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Which server is meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    pub is_tls: bool,
    pub host: String,
    pub port: u16,
}

/// Addresses of servers, and when they were asked for.
#[derive(Default)]
pub struct Addresses {
    known: Mutex<HashMap<Origin, (Instant, Vec<SocketAddr>)>>,
    turn: AtomicUsize,
}

impl Addresses {
    /// A stream to one of a server's addresses, each in turn.
    pub fn connect(&self, origin: &Origin, deadline: Instant) -> io::Result<Arc<TcpStream>> {
        let addresses = in_turn(self.of(origin), self.turn.fetch_add(1, Ordering::Relaxed));
        let until = deadline.min(Instant::now() + CONNECT_TIMEOUT);
        let mut failed = io::Error::other("no such host");
        for (number, address) in addresses.iter().enumerate() {
            let left = until.saturating_duration_since(Instant::now()) / (addresses.len() - number) as u32;
            match TcpStream::connect_timeout(address, left.max(Duration::from_millis(1))) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_nonblocking(true)?;
                    return Ok(Arc::new(stream));
                }
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    failed = io::Error::other("no connection in time");
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Of a host that there is not, none. One thread asks the system, and others wait for it; the system takes as long as it
    /// takes, whatever our deadlines are.
    fn of(&self, origin: &Origin) -> Vec<SocketAddr> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, found)) = known.get(origin)
            && since.elapsed() < REMEMBERED
        {
            return found.clone();
        }
        let found: Vec<_> =
            (origin.host.as_str(), origin.port).to_socket_addrs().map(Iterator::collect).unwrap_or_default();
        known.insert(origin.clone(), (Instant::now(), found.clone()));
        found
    }
}

/// The addresses of the family that the system names first begin, each time with another one.
pub(super) fn in_turn(addresses: Vec<SocketAddr>, turn: usize) -> Vec<SocketAddr> {
    let is_ipv6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut first, others): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|one| one.is_ipv6() == is_ipv6);
    let count = first.len().max(1);
    first.rotate_left(turn % count);
    first.extend(others);
    first
}
