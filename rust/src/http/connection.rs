//! One connection to a server, with or without TLS: nothing waits but `wait`.

use std::io::{self, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::socket::{self, Ready};

/// The system wakes a reader when so many bytes are there, and not for every packet: each wake costs as much as copying some of them.
const LOW_WATER: usize = 512 << 10;
/// Less than this is not worth a call of the system that asks for it.
const LEAST_LOW_WATER: usize = 32 << 10;
/// What a TLS session may hold back of what the system has received: a record and its own buffer.
const HELD_BYTES: usize = 128 << 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Which server is meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    pub is_tls: bool,
    pub host: String,
    pub port: u16,
}

/// A connection.
pub struct Connection {
    stream: Arc<TcpStream>,
    tls: Option<Box<Session>>,
    low_water: usize,
}

/// TLS on a stream; what the system has is read in pieces that are larger than the session asks for.
struct Session {
    session: ClientConnection,
    incoming: BufReader<Incoming>,
}

struct Incoming(Arc<TcpStream>);

impl Read for Incoming {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(out)
    }
}

/// A stream to one of a server's addresses, each in turn.
pub fn connect(origin: &Origin, deadline: Instant) -> io::Result<Arc<TcpStream>> {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let found = (origin.host.as_str(), origin.port).to_socket_addrs();
    let mut addresses: Vec<_> = found.map_err(|_| no_host())?.collect();
    let count = addresses.len().max(1);
    addresses.rotate_left(TURN.fetch_add(1, Ordering::Relaxed) % count);
    let until = deadline.min(Instant::now() + CONNECT_TIMEOUT);
    let mut failed = no_host();
    for (number, address) in addresses.iter().enumerate() {
        let left = until.saturating_duration_since(Instant::now()) / (count - number) as u32;
        match TcpStream::connect_timeout(address, left.max(Duration::from_millis(1))) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                return Ok(Arc::new(stream));
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => failed = io::Error::other("no connection in time"),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn no_host() -> io::Error {
    io::Error::other("no such host")
}

impl Connection {
    /// Without TLS.
    pub fn plain(stream: Arc<TcpStream>) -> Self {
        Self { stream, tls: None, low_water: 1 }
    }

    /// With TLS, once both sides have agreed.
    pub fn secure(
        stream: Arc<TcpStream>,
        host: &str,
        config: Arc<ClientConfig>,
        deadline: Instant,
    ) -> io::Result<Self> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
        let incoming = BufReader::with_capacity(HELD_BYTES / 2, Incoming(Arc::clone(&stream)));
        let mut made = Self { stream, tls: Some(Box::new(Session { session, incoming })), low_water: 1 };
        while made.tls.as_ref().is_some_and(|tls| tls.session.is_handshaking()) {
            made.flush(deadline)?;
            match made.tls.as_mut().map_or(Ok(1), |tls| tls.receive()) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => made.wait(1, deadline)?,
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
        made.flush(deadline)?;
        Ok(made)
    }

    /// Whether nothing has come since the last answer, not even an end.
    pub fn is_quiet(&self) -> bool {
        let held = self.tls.as_ref().is_some_and(|tls| !tls.incoming.buffer().is_empty());
        let peeked = self.stream.peek(&mut [0]);
        !held && peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sends all of it.
    pub fn send(&mut self, text: &[u8], deadline: Instant) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.session.writer().write_all(text)?;
            return self.flush(deadline);
        }
        let mut left = text;
        while !left.is_empty() {
            match (&*self.stream).write(left) {
                Ok(sent) => left = &left[sent..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    socket::wait(&self.stream, Ready::Write, deadline)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn flush(&mut self, deadline: Instant) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.session.wants_write() {
            match tls.session.write_tls(&mut &*self.stream) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    socket::wait(&self.stream, Ready::Write, deadline)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Bytes that are there, 0 at the end; `WouldBlock` if none are.
    pub fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return (&*self.stream).read(out) };
        loop {
            match tls.session.reader().read(out) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => tls.receive()?,
                done => return done,
            };
        }
    }

    /// Bytes as soon as some are there, 0 at the end; see `wait`.
    pub fn read_some(&mut self, out: &mut [u8], expected: usize, deadline: Instant) -> io::Result<usize> {
        loop {
            match self.read(out) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(expected, deadline)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// Waits until bytes are there, many if as many as `expected` are still to come.
    pub fn wait(&mut self, expected: usize, deadline: Instant) -> io::Result<()> {
        let held = if self.tls.is_some() { HELD_BYTES } else { 0 };
        let wanted = match expected.saturating_sub(held).min(LOW_WATER) {
            few if few < LEAST_LOW_WATER => 1,
            many => many,
        };
        if wanted != self.low_water {
            socket::set_low_water(&self.stream, wanted);
            self.low_water = wanted;
        }
        socket::wait(&self.stream, Ready::Read, deadline)
    }
}

impl Session {
    /// Takes what the system has; 0 at the end, `WouldBlock` if there is nothing.
    fn receive(&mut self) -> io::Result<usize> {
        let count = self.session.read_tls(&mut self.incoming)?;
        self.session.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(count)
    }
}
