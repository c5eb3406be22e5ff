//! What the libraries do not ask of sockets.
#![allow(unsafe_code)] // Two calls of the system, each with memory of its own frame.

use std::os::fd::AsRawFd;

use tokio::net::TcpStream;

/// Whether nothing has arrived that was not read, not even the end. Asks the system, since its last report may be outdated.
pub fn is_quiet(stream: &TcpStream) -> bool {
    let mut byte = 0_u8;
    // SAFETY: one byte, which lives for the call.
    let found =
        unsafe { libc::recv(stream.as_raw_fd(), (&raw mut byte).cast(), 1, libc::MSG_PEEK | libc::MSG_DONTWAIT) };
    found < 0 && std::io::Error::last_os_error().kind() == std::io::ErrorKind::WouldBlock
}

/// Makes a socket ready to read only when so many bytes have arrived, or no more will. If they have arrived already, the system
/// reports it at once (`tcp_set_rcvlowat` in Linux 4.18 and newer).
///
/// Other systems than Linux have no such setting, and wake more often.
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
