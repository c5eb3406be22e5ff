//! Memory whose file is cut, or whose disk fails, while it is read: zeros and a mark instead of the end of the process.
//!
//! Reading a mapped page that its file no longer has raises SIGBUS. No check before a copy closes that window, and a call for each
//! row costs as much as copying it (ARCHITECTURE.md has the figures). So the signal is caught: if it comes from memory that is
//! watched, zeros are mapped there, the copy goes on, and whoever asked for it asks `is_lost` afterwards. All other faults go to
//! the handler that was there before, as libwayland does for the memory that it shares with clients.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

/// How many mappings can be watched at once: more than Linux lets a process have.
const PLACES: usize = 1 << 16;

/// One piece of memory. The handler can run at any moment, so all of it is atomic; `start` is 0 while it is not in use.
struct Place {
    start: AtomicUsize,
    end: AtomicUsize,
    is_lost: AtomicBool,
}

static WATCHED: [Place; PLACES] =
    [const { Place { start: AtomicUsize::new(0), end: AtomicUsize::new(0), is_lost: AtomicBool::new(false) } }; PLACES];
/// Places above this were never used.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Places that are free again.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// How many faults were met so far.
static LOST: AtomicUsize = AtomicUsize::new(0);
/// What was done with the signal before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Mapped memory that may lose its file. It must not be unmapped before this is dropped.
#[derive(Debug)]
pub struct Watched {
    place: usize,
}

impl Watched {
    /// Watches mapped memory; None where nothing can be.
    #[must_use]
    pub fn new(start: usize, len: usize) -> Option<Self> {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(install);
        BEFORE.get()?;
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let place = free.pop().unwrap_or_else(|| USED.fetch_add(1, Ordering::SeqCst));
        let watched = WATCHED.get(place)?;
        watched.is_lost.store(false, Ordering::SeqCst);
        watched.end.store(start.checked_add(len)?, Ordering::SeqCst);
        watched.start.store(start, Ordering::SeqCst);
        Some(Self { place })
    }

    /// Whether a part of it could not be read, and was read as zeros.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        WATCHED[self.place].is_lost.load(Ordering::SeqCst)
    }
}

/// Whether any watched memory of this process was ever lost: 0 spares asking each.
#[must_use]
pub fn lost() -> usize {
    LOST.load(Ordering::SeqCst)
}

impl Drop for Watched {
    fn drop(&mut self) {
        WATCHED[self.place].start.store(0, Ordering::SeqCst);
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self.place);
    }
}

fn install() {
    // SAFETY: all zeros is a valid `sigaction`, and the handler does only what a signal handler may.
    unsafe {
        let (mut ours, mut before) = (MaybeUninit::<libc::sigaction>::zeroed().assume_init(), MaybeUninit::zeroed());
        ours.sa_sigaction = on_fault as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        libc::sigemptyset(&raw mut ours.sa_mask);
        if libc::sigaction(libc::SIGBUS, null(), before.as_mut_ptr()) == 0 {
            BEFORE.get_or_init(|| before.assume_init()); // first, since the handler needs it
            libc::sigaction(libc::SIGBUS, &raw const ours, null_mut());
        }
    }
}

/// The signal: reads and writes atomics, and makes one or two calls of the system.
extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a valid `info`, and its address is that of the fault where the code says so.
    let at = unsafe { ((*info).si_code > 0).then(|| (*info).si_addr() as usize) };
    if at.is_some_and(replace) {
        return;
    }
    // SAFETY: what was there before is called, or set, as the kernel would have.
    unsafe { pass_on(signal, info, context) };
}

/// Maps zeros over watched memory from the page of `at` to its end; false if it is not watched.
fn replace(at: usize) -> bool {
    let used = USED.load(Ordering::SeqCst).min(PLACES);
    let Some((place, end)) = WATCHED[..used].iter().find_map(|place| Some((place, end_if_in(place, at)?))) else {
        return false;
    };
    // SAFETY: `sysconf` of the page size is a lookup.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let first = at / page * page;
    place.is_lost.store(true, Ordering::SeqCst);
    LOST.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the pages belong to a mapping that its owner keeps for as long as it is watched, and that is only read.
    let made = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_FIXED;
        libc::mmap(first as *mut c_void, end.next_multiple_of(page) - first, libc::PROT_READ, flags, -1, 0)
    };
    made != libc::MAP_FAILED
}

/// The end of a place if `at` lies in it. A place that changes meanwhile is not the one of the fault.
fn end_if_in(place: &Place, at: usize) -> Option<usize> {
    let start = place.start.load(Ordering::SeqCst);
    let end = place.end.load(Ordering::SeqCst);
    (start != 0 && start <= at && at < end && place.start.load(Ordering::SeqCst) == start).then_some(end)
}

/// A fault that is not ours. A handler is called; for the default action the fault is left to happen again.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(before) = BEFORE.get() else { return };
    if before.sa_sigaction == libc::SIG_DFL || before.sa_sigaction == libc::SIG_IGN {
        // SAFETY: as it was before.
        unsafe {
            libc::sigaction(signal, before, null_mut());
            if (*info).si_code <= 0 {
                libc::raise(signal); // sent, and no fault: nothing would repeat it
            }
        }
    } else if before.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: the kernel would call it with the same arguments.
        unsafe {
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                std::mem::transmute(before.sa_sigaction);
            handler(signal, info, context);
        }
    } else {
        // SAFETY: as above.
        unsafe {
            let handler: extern "C" fn(c_int) = std::mem::transmute(before.sa_sigaction);
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memmap2::Mmap;

    #[test]
    fn what_is_cut_reads_as_zeros_and_is_known() {
        let path = std::env::temp_dir().join(format!("penstock-lost-{}", std::process::id()));
        std::fs::write(&path, vec![7; 1 << 16]).unwrap();
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        // SAFETY: this test is what happens to a file that is cut.
        let (map, other) = unsafe { (Mmap::map(&file).unwrap(), Mmap::map(&file).unwrap()) };
        let watched = Watched::new(map.as_ptr().addr(), map.len()).unwrap();
        let beside = Watched::new(other.as_ptr().addr(), other.len()).unwrap();
        assert_eq!((map[9_000], watched.is_lost()), (7, false));
        file.set_len(5_000).unwrap();
        assert_eq!((map[4_999], map[9_000], map[60_000]), (7, 0, 0));
        assert!(watched.is_lost() && !beside.is_lost());
        let place = watched.place;
        drop(watched);
        assert!(!Watched::new(other.as_ptr().addr(), other.len()).is_some_and(|it| it.place == place && it.is_lost()));
        std::fs::remove_file(&path).unwrap();
    }
}
