//! What the standard library does not ask of sockets.
#![allow(unsafe_code)] // Two calls of the system, each with memory of its own frame.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// What is waited for.
#[derive(Clone, Copy, Debug)]
pub enum Ready {
    /// Bytes to read.
    Read,
    /// Room to write.
    Write,
}

/// Waits until a socket is ready, broken or closed.
///
/// # Errors
/// `TimedOut` after the deadline, and what the system says.
pub fn wait(stream: &TcpStream, ready: Ready, deadline: Instant) -> io::Result<()> {
    let events = match ready {
        Ready::Read => libc::POLLIN,
        Ready::Write => libc::POLLOUT,
    };
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let left_ms = i32::try_from((left + Duration::from_micros(999)).as_millis()).unwrap_or(i32::MAX);
        let mut one = libc::pollfd { fd: stream.as_raw_fd(), events, revents: 0 };
        // SAFETY: one entry, which lives for the call.
        match unsafe { libc::poll(&raw mut one, 1, left_ms) } {
            1 => return Ok(()),
            0 => {}
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

/// From now on a socket is ready to read only when so many bytes are there, or no more will come.
///
/// Systems other than Linux are not asked, and wake more often.
pub fn set_low_water(stream: &TcpStream, bytes: usize) {
    if !cfg!(target_os = "linux") {
        return;
    }
    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: the option is a C int, which lives for the call.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
}
