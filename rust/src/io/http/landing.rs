//! The destination of several responses: parts of one memory, each written by one thread at a time, and by none once it is closed.
#![allow(unsafe_code)] // Writes through a pointer, to memory that `Landing::new` is promised; each write is checked to lie in it.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{io, ptr, slice};

/// Memory is lent only in contiguous pieces of at least this size, since each piece takes a system call.
const LENT_BYTES: usize = 32 << 10;

/// Bytes [source, source + size) of a request's response are written to offset `at` of the memory.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Offset in the response.
    pub source: u64,
    /// Offset in the memory.
    pub at: usize,
    /// Bytes.
    pub size: usize,
}

/// The memory that responses are written to.
#[derive(Debug)]
pub struct Landing {
    memory: *mut u8,
    places: Vec<Place>,
    /// Request r has places first[r] … first[r + 1] - 1.
    first: Vec<usize>,
    /// Whether a request's places cover its response from beginning to end, each byte once.
    in_order: Vec<bool>,
    open: Vec<Mutex<bool>>,
    begun: Vec<OnceLock<Instant>>,
}

// SAFETY: `memory` is written only while the lock of the request is held, and places of different requests do not overlap.
unsafe impl Send for Landing {}
// SAFETY: as above.
unsafe impl Sync for Landing {}

impl Landing {
    /// None if a place does not lie in the memory of `size` bytes, or the requests' places are not in order.
    ///
    /// # Safety
    /// The memory must not move, and nothing else may read or write the places of a request, until that request is closed. Places of
    /// different requests must not overlap.
    #[must_use]
    pub unsafe fn new(memory: *mut u8, size: usize, places: Vec<Place>, first: Vec<usize>) -> Option<Self> {
        let lies_in = |place: &Place| place.at.checked_add(place.size).is_some_and(|end| end <= size);
        let in_order = first.is_sorted() && first.first() == Some(&0) && first.last() == Some(&places.len());
        if !in_order || !places.iter().all(lies_in) {
            return None;
        }
        let follows =
            |pair: &[Place]| pair[0].source.checked_add(pair[0].size as u64).is_some_and(|end| end <= pair[1].source);
        let in_order = first.windows(2).map(|edge| places[edge[0]..edge[1]].windows(2).all(follows)).collect();
        let open = (1..first.len()).map(|_| Mutex::new(true)).collect();
        let begun = (1..first.len()).map(|_| OnceLock::new()).collect();
        Some(Self { memory, places, first, in_order, open, begun })
    }

    /// The number of requests.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.open.len()
    }

    /// Whether a request is not closed yet.
    #[must_use]
    pub fn is_open(&self, request: usize) -> bool {
        *self.open[request].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a request is made now, for the first time or again.
    pub fn begin(&self, request: usize) {
        self.begun[request].get_or_init(Instant::now);
    }

    /// The time since a request was first made; None if it still waits.
    #[must_use]
    pub fn since(&self, request: usize) -> Option<Duration> {
        self.begun[request].get().map(Instant::elapsed)
    }

    /// Writes bytes of a request's response from its offset `offset` on; false if the request is closed.
    pub fn put(&self, request: usize, offset: u64, bytes: &[u8]) -> bool {
        let open = self.open[request].lock().unwrap_or_else(PoisonError::into_inner);
        if !*open {
            return false;
        }
        let end = offset + bytes.len() as u64;
        for place in &self.places[self.first[request]..self.first[request + 1]] {
            let (low, high) = (place.source.max(offset), (place.source + place.size as u64).min(end));
            if low < high {
                let some = &bytes[(low - offset) as usize..(high - offset) as usize];
                // SAFETY: the place lies in the memory, which exists since the request is open.
                unsafe {
                    ptr::copy_nonoverlapping(
                        some.as_ptr(),
                        self.memory.add(place.at + (low - place.source) as usize),
                        some.len(),
                    )
                };
            }
        }
        true
    }

    /// Lets `read` fill the contiguous memory for a request's response from its offset `offset` on.
    ///
    /// None, and nothing is read, if the request is closed, or the contiguous memory is too short.
    pub fn lend(
        &self,
        request: usize,
        offset: u64,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        let open = self.open[request].lock().unwrap_or_else(PoisonError::into_inner);
        if !*open || !self.in_order[request] {
            return None;
        }
        let places = &self.places[self.first[request]..self.first[request + 1]];
        let before = places.partition_point(|place| place.source <= offset);
        let place = places[before.checked_sub(1)?];
        let done = usize::try_from(offset - place.source).ok()?;
        let left = place.size.checked_sub(done).filter(|left| *left >= LENT_BYTES)?;
        // SAFETY: the place lies in the memory, which exists and is exclusive, since the request is open and its lock is held.
        Some(read(unsafe { slice::from_raw_parts_mut(self.memory.add(place.at + done), left) }))
    }

    /// Closes a request, for which nothing is written from now on; returns whether it was open.
    pub fn close(&self, request: usize) -> bool {
        std::mem::replace(&mut *self.open[request].lock().unwrap_or_else(PoisonError::into_inner), false)
    }

    /// Closes all requests.
    pub fn close_all(&self) {
        (0..self.requests()).for_each(|request| {
            self.close(request);
        });
    }
}
