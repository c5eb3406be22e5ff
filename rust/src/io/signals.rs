//! Signals that are pending: sent to this process, whose main thread has not had its turn to handle them yet. And the turns of the
//! thread that waits for them.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;

/// A descriptor that can be read as long as one of these signals waits for the process to handle it; nobody reads it, so that the
/// signal is handled all the same. `descriptor`: one that was made before and is about these from now on, or -1.
///
/// # Errors
/// On systems other than Linux, and where there are too many descriptors.
#[cfg(target_os = "linux")]
pub fn pending(descriptor: c_int, numbers: &[c_int]) -> io::Result<c_int> {
    let mut mask = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` makes the set, which the others only change and read; `descriptor` is the caller's.
    let made = unsafe {
        libc::sigemptyset(mask.as_mut_ptr());
        for &number in numbers {
            libc::sigaddset(mask.as_mut_ptr(), number);
        }
        libc::signalfd(descriptor, mask.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if made < 0 { Err(io::Error::last_os_error()) } else { Ok(made) }
}

/// See above.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn pending(_: c_int, _: &[c_int]) -> io::Result<c_int> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Nanoseconds of a turn: the least that Linux gives.
#[cfg(target_os = "linux")]
const TURN_NS: u64 = 100_000;

/// The calling thread takes short turns, and gets one soon after it was woken, before those that take long ones: since Linux 6.12,
/// which lets any user say so. Older ones pay no heed, and a thread that has another policy than the usual one keeps what it has.
///
/// # Errors
/// On systems other than Linux, and where it is forbidden.
#[cfg(target_os = "linux")]
pub fn take_short_turns() -> io::Result<()> {
    let size = size_of::<libc::sched_attr>();
    let mut turns = MaybeUninit::<libc::sched_attr>::zeroed();
    // SAFETY: numbers may be zero; the calls read and write `size` bytes of them, and are about the calling thread.
    let done = unsafe {
        let turns = turns.assume_init_mut();
        match libc::syscall(libc::SYS_sched_getattr, 0, &raw mut *turns, size, 0) {
            0 if turns.sched_policy == libc::SCHED_OTHER.cast_unsigned() => {
                turns.sched_runtime = TURN_NS;
                libc::syscall(libc::SYS_sched_setattr, 0, &raw const *turns, 0)
            }
            other => other,
        }
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// See above.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn take_short_turns() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn turns_are_those_of_the_calling_thread() {
        take_short_turns().expect("nothing forbids it");
    }

    #[test]
    fn no_descriptor_of_another_kind_is_taken() {
        assert!(pending(0, &[libc::SIGUSR2]).is_err());
        let made = pending(-1, &[libc::SIGUSR2]).expect("a descriptor");
        assert_eq!(pending(made, &[libc::SIGUSR1]).expect("the same one"), made);
    }
}
