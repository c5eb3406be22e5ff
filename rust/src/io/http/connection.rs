//! One connection to a server, with or without TLS. Only `wait` waits.

use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::socket;

/// The system wakes a reader when so many bytes have arrived, not for every packet: a wake costs as much as copying several packets.
/// For this it lets a connection's receive buffer grow to twice as much: 1 MiB of memory for each connection.
const LOW_WATER: usize = 512 << 10;
/// Fewer bytes than this are not worth the system call that requests them.
const LEAST_LOW_WATER: usize = 32 << 10;
/// What a TLS session may hold back of what the system has received: a record and its own buffer.
const HELD_BYTES: usize = 128 << 10;
/// How long to wait for many bytes; then whatever has arrived is taken.
const LOW_WATER_WAIT: Duration = Duration::from_secs(1);

/// Size of a read that cannot go directly to its destination; it should fit the nearer caches.
const RECEIVED_BYTES: usize = 128 << 10;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; RECEIVED_BYTES]);
}

/// Lends memory for what is received and copied to its destination before the next wait.
pub fn with_scratch<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
    SCRATCH.with_borrow_mut(|scratch| work(scratch))
}

/// A connection to a server.
pub struct Connection {
    stream: Arc<TcpStream>,
    tls: Option<Box<Session>>,
    low_water: usize,
    /// Whether every wait for many bytes since the last request was successful.
    comes_in_bulk: bool,
}

/// TLS on a stream; reads from the system in larger pieces than the session requests.
struct Session {
    session: ClientConnection,
    incoming: BufReader<Incoming>,
}

struct Incoming(Arc<TcpStream>);

/// Vectored writes, which a TLS session would make, may end the process by a signal when the server has closed the connection.
struct Outgoing<'a>(&'a TcpStream);

impl Read for Incoming {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(out)
    }
}

impl Write for Outgoing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Trusts the system's certificates.
pub fn tls_config() -> Result<ClientConfig, rustls::Error> {
    Ok(ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?
        .with_no_client_auth())
}

fn is_nothing_yet(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

impl Connection {
    /// Without TLS.
    pub fn plain(stream: TcpStream) -> Self {
        Self { stream: Arc::new(stream), tls: None, low_water: 1, comes_in_bulk: true }
    }

    /// With TLS, once both sides have agreed.
    pub async fn secure(stream: TcpStream, host: &str, config: Arc<ClientConfig>) -> io::Result<Self> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
        let mut made = Self::plain(stream);
        let incoming = BufReader::with_capacity(HELD_BYTES / 2, Incoming(Arc::clone(&made.stream)));
        made.tls = Some(Box::new(Session { session, incoming }));
        while made.tls.as_ref().is_some_and(|tls| tls.session.is_handshaking()) {
            made.flush().await?;
            match made.tls.as_mut().map_or(Ok(1), |tls| tls.receive()) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if is_nothing_yet(&error) => made.wait(1).await?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        made.flush().await?;
        Ok(made)
    }

    /// Whether nothing has arrived since the last response, not even the end.
    pub fn is_quiet(&mut self) -> bool {
        let is_held = self.tls.as_mut().is_some_and(|tls| {
            let is_decrypted = !tls.session.reader().fill_buf().is_err_and(|error| is_nothing_yet(&error));
            is_decrypted || !tls.incoming.buffer().is_empty()
        });
        !is_held && socket::is_quiet(&self.stream)
    }

    /// Sends all bytes.
    pub async fn send(&mut self, text: &[u8]) -> io::Result<()> {
        self.comes_in_bulk = true;
        if let Some(tls) = &mut self.tls {
            tls.session.writer().write_all(text)?;
            return self.flush().await;
        }
        let mut left = text;
        while !left.is_empty() {
            match self.stream.try_write(left) {
                Ok(sent) => left = &left[sent..],
                Err(error) if is_nothing_yet(&error) => self.stream.writable().await?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.session.wants_write() {
            match tls.session.write_tls(&mut Outgoing(&self.stream)) {
                Ok(_) => {}
                Err(error) if is_nothing_yet(&error) => self.stream.writable().await?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads the bytes that have arrived, 0 at the end; `WouldBlock` if there are none.
    pub fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.stream.try_read(out) };
        loop {
            match tls.session.reader().read(out) {
                Err(error) if is_nothing_yet(&error) => tls.receive()?,
                done => return done,
            };
        }
    }

    /// Reads bytes as soon as some arrive, 0 at the end.
    pub async fn read_some(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.read(out) {
                Err(error) if is_nothing_yet(&error) => self.wait(1).await?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// What `take` returns for bytes as soon as some arrive, for none at the end; see `wait`.
    pub async fn take_some<T>(&mut self, expected: usize, mut take: impl FnMut(&[u8]) -> T) -> io::Result<T> {
        loop {
            match with_scratch(|scratch| self.read(scratch).map(|count| take(&scratch[..count]))) {
                Err(error) if is_nothing_yet(&error) => self.wait(expected).await?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// Waits until bytes arrive, many if as many as `expected` are still to come. Everything that arrived before must have been read,
    /// since the system reports changes only.
    pub async fn wait(&mut self, expected: usize) -> io::Result<()> {
        let held = if self.tls.is_some() { HELD_BYTES } else { 0 };
        let many = expected.saturating_sub(held).min(LOW_WATER);
        if self.comes_in_bulk && many >= LEAST_LOW_WATER {
            self.set_low_water(many);
            match timeout(LOW_WATER_WAIT, self.stream.readable()).await {
                Ok(done) => return done,
                Err(_) => self.comes_in_bulk = false,
            }
        }
        self.set_low_water(1);
        self.stream.readable().await
    }

    fn set_low_water(&mut self, bytes: usize) {
        if bytes != self.low_water {
            socket::set_low_water(&self.stream, bytes);
            self.low_water = bytes;
        }
    }
}

impl Session {
    /// Reads what the system has; 0 at the end, `WouldBlock` if there is nothing.
    fn receive(&mut self) -> io::Result<usize> {
        let count = self.session.read_tls(&mut self.incoming)?;
        self.session.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(count)
    }
}
