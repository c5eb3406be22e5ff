//! Where records begin and end in a file, and files that are packed as a whole.

mod headers;
pub(crate) mod index;
pub mod lines;
pub mod lmdb;
pub mod parts;
pub mod pieces;
mod positions;
pub mod recordio;
pub mod recordio_header;
pub mod tfrecord;
pub mod unpack;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

pub use self::index::Index;
use crate::core::errors::{FileTrouble, Trouble};

/// How far a long call has come, read from other threads; and the way to stop it.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    stopped: AtomicBool,
}

impl Progress {
    /// Bytes done so far.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Asks the call to end early, with [`Trouble::Stopped`].
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, bytes: u64) -> Result<(), Trouble> {
        self.done.fetch_add(bytes, Ordering::Relaxed);
        if self.stopped.load(Ordering::Relaxed) { Err(Trouble::Stopped) } else { Ok(()) }
    }
}

/// How messages name a record and where it begins.
fn place_of(record: u64, at: u64) -> String {
    format!("record {record}, byte {at}")
}

fn truncated(record: u64, at: u64, found: String) -> Trouble {
    Trouble::data(place_of(record, at), found, "the file is truncated: copy or write it again")
}

/// Calls `work` for every file number below `files` on `threads` threads of its own (they wait for disks, so the pool
/// of kernels is left alone); returns the results in order.
///
/// # Errors
/// Of all files that failed, the one with the lowest number.
pub(crate) fn for_each_file<T: Send>(
    files: usize,
    threads: usize,
    work: impl Fn(usize) -> Result<T, Trouble> + Sync,
) -> Result<Vec<T>, FileTrouble> {
    let next = AtomicUsize::new(0);
    let limit = AtomicUsize::new(files);
    let results: Mutex<Vec<Option<Result<T, Trouble>>>> = Mutex::new((0..files).map(|_| None).collect());
    let serve = || {
        loop {
            let file = next.fetch_add(1, Ordering::Relaxed);
            if file >= limit.load(Ordering::Relaxed) {
                break;
            }
            let result = work(file);
            if result.is_err() {
                // Files before this one may still fail, and their error comes first; later ones need no work.
                limit.fetch_min(file, Ordering::Relaxed);
            }
            results.lock().unwrap_or_else(PoisonError::into_inner)[file] = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(files) {
            scope.spawn(serve);
        }
        serve(); // this thread waits anyway, and where there is one file, no other is started
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let done = results.into_iter().flatten().enumerate();
    done.map(|(file, result)| result.map_err(|trouble| FileTrouble { file, trouble })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_failing_file_is_told() {
        for threads in [1, 4] {
            let work = |file| if file % 7 == 5 { Err(Trouble::Stopped) } else { Ok(file) };
            assert_eq!(for_each_file(100, threads, work).unwrap_err().file, 5);
            assert_eq!(for_each_file(5, threads, work).unwrap(), [0, 1, 2, 3, 4]);
        }
    }
}
