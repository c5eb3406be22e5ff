//! Threads that make requests, some at once, and a list of those that ended.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::client::Client;
use super::{Landing, Outcome};

/// What is received at once where it cannot go to its place directly; it should stay in the nearer caches.
const RECEIVED_BYTES: usize = 128 << 10;

/// While jobs wait that nobody has begun, the ends of several are told together, this much later at most.
const TOGETHER: Duration = Duration::from_millis(2);
/// Fewer waiting jobs than this are told of at once, so that more come.
const FEW: usize = 4;
/// A thread without work ends after this.
const IDLE: Duration = Duration::from_secs(5);
/// A connection that nobody used for so long is closed.
const KEPT: Duration = Duration::from_secs(30);
const STACK_BYTES: usize = 512 << 10;

/// Bytes [from, from + length) of a job's answer are the answer to request `request` of `landing`.
#[derive(Debug)]
pub struct Part {
    /// Where they go.
    pub landing: Arc<Landing>,
    /// Which request of the landing.
    pub request: usize,
    /// Offset in the job's answer.
    pub from: u64,
    /// Bytes.
    pub length: u64,
}

/// One request: `length` bytes of an object from `start`.
#[derive(Debug)]
pub struct Job {
    /// What the caller calls it.
    pub ticket: u64,
    /// Where the object is; signed if need be.
    pub url: String,
    /// What tells this version of the object from others (see `head::versions`); empty if nothing does.
    pub version: String,
    /// Bytes of the whole object.
    pub size: u64,
    /// The first byte.
    pub start: u64,
    /// How many.
    pub length: u64,
    /// Whose they are, one behind the other.
    pub parts: Vec<Part>,
}

impl Job {
    pub(super) fn range(&self) -> Range<u64> {
        self.start..self.start + self.length
    }

    fn begin(&self) {
        self.parts.iter().for_each(|part| part.landing.begin(part.request));
    }

    fn is_wanted(&self) -> bool {
        self.parts.iter().any(|part| part.landing.is_open(part.request))
    }

    /// Writes bytes of the answer to where they belong; false if nobody wants any.
    pub(super) fn put(&self, offset: u64, bytes: &[u8]) -> bool {
        let end = offset + bytes.len() as u64;
        let mut touched =
            self.parts.iter().filter(|part| part.from < end && offset < part.from + part.length).peekable();
        if touched.peek().is_none() {
            return self.is_wanted();
        }
        let mut wanted = false;
        for part in touched {
            let (low, high) = (part.from.max(offset), (part.from + part.length).min(end));
            let some = &bytes[(low - offset) as usize..(high - offset) as usize];
            wanted |= part.landing.put(part.request, low - part.from, some);
        }
        wanted || self.is_wanted()
    }

    /// Has `read` fill memory where the answer goes from `offset` on (see `Landing::lend`).
    pub(super) fn lend(
        &self,
        offset: u64,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        let part = self.parts.partition_point(|part| part.from <= offset).checked_sub(1)?;
        let part = &self.parts[part];
        let left = (part.from + part.length).checked_sub(offset).filter(|left| *left > 0)?;
        part.landing.lend(part.request, offset - part.from, |out| {
            let most = out.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            read(&mut out[..most])
        })
    }

    /// All bytes are there.
    pub(super) fn finish(&self) -> Outcome {
        let landed = self.parts.iter().filter(|part| part.landing.close(part.request)).count();
        if landed == 0 { Outcome::Dropped } else { Outcome::Landed }
    }
}

/// A job that ended.
#[derive(Debug)]
pub struct Done {
    /// Which.
    pub ticket: u64,
    /// How.
    pub outcome: Outcome,
    /// From the request to the last byte.
    pub seconds: f64,
    /// Whether as many as allowed were under way when it began.
    pub busy: bool,
}

/// Jobs that wait, threads that do them, and those that ended.
pub struct Lane {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    state: Mutex<State>,
    work: Condvar,
    news: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    done: Vec<Done>,
    limit: usize,
    running: usize,
    threads: usize,
    woken: bool,
    closed: bool,
}

impl Lane {
    /// A lane whose requests take no longer than `timeout`; `is_plain` as for `Client::new`.
    #[must_use]
    pub fn new(timeout: Duration, is_plain: bool) -> Self {
        let shared = Shared {
            client: Client::new(timeout, KEPT, is_plain),
            state: Mutex::default(),
            work: Condvar::new(),
            news: Condvar::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Has jobs done, `limit` at once.
    ///
    /// # Errors
    /// If there is no thread to do them, and the system has none to give.
    pub fn submit(&self, jobs: Vec<Job>, limit: usize) -> io::Result<()> {
        let mut state = self.shared.lock();
        // Only those are woken that may go on; a thread that ends a job takes the next itself.
        let free = limit.saturating_sub(state.running).min(state.waiting.len() + jobs.len());
        let before = state.waiting.len();
        state.limit = limit;
        state.waiting.extend(jobs);
        while state.threads < limit.min(state.running + state.waiting.len()) {
            let shared = Arc::clone(&self.shared);
            let named = thread::Builder::new().name("penstock-http".into()).stack_size(STACK_BYTES);
            match named.spawn(move || shared.serve()) {
                Ok(_) => state.threads += 1,
                Err(_) if state.threads > 0 => break,
                Err(error) => {
                    state.waiting.truncate(before);
                    return Err(error);
                }
            }
        }
        drop(state);
        (0..free).for_each(|_| self.shared.work.notify_one());
        Ok(())
    }

    /// The jobs that ended since the last call; waits for one, for `wake`, or for so long.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> Vec<Done> {
        let mut until = Instant::now() + timeout;
        let mut state = self.shared.lock();
        let mut is_first = true;
        while !state.woken && (state.done.is_empty() || state.waiting.len() >= FEW) {
            if is_first && !state.done.is_empty() {
                (until, is_first) = (Instant::now() + TOGETHER, false);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.shared.news.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.woken = false;
        std::mem::take(&mut state.done)
    }

    /// Has whoever is in `wait`, or comes next, return at once.
    pub fn wake(&self) {
        self.shared.lock().woken = true;
        self.shared.news.notify_all();
    }

    /// Drops what waits and breaks off what is under way.
    pub fn close(&self) {
        let dropped = {
            let mut state = self.shared.lock();
            state.closed = true;
            std::mem::take(&mut state.waiting)
        };
        drop(dropped);
        self.shared.client.close();
        self.shared.work.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut scratch = vec![0; RECEIVED_BYTES];
        while let Some((job, busy)) = self.next() {
            let began = Instant::now();
            job.begin();
            let get = || if job.is_wanted() { self.client.get(&job, &mut scratch) } else { Outcome::Dropped };
            let outcome = catch_unwind(AssertUnwindSafe(get))
                .unwrap_or_else(|_| Outcome::Unreachable("the client failed".into()));
            let seconds = began.elapsed().as_secs_f64();
            let mut state = self.lock();
            state.running -= 1;
            state.done.push(Done { ticket: job.ticket, outcome, seconds, busy });
            if state.done.len() == 1 || state.waiting.len() < FEW {
                self.news.notify_all();
            }
        }
    }

    /// The next job, and whether no other may begin beside it; None if there was none for long.
    fn next(&self) -> Option<(Job, bool)> {
        let until = Instant::now() + IDLE;
        let mut state = self.lock();
        loop {
            if state.running < state.limit
                && let Some(job) = state.waiting.pop_front()
            {
                state.running += 1;
                let busy = state.running >= state.limit;
                return Some((job, busy));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || state.closed {
                state.threads -= 1;
                if state.threads == 0 {
                    self.client.close_idle(); // nobody would look at their age
                }
                return None;
            }
            state = self.work.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
