//! Makes requests, many at once in a few threads, and lists those that ended.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::process;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use super::client::Client;
use super::{Job, Outcome};

/// While jobs wait to start, the ends of several are reported together, at most this much later.
const TOGETHER: Duration = Duration::from_millis(2);
/// With fewer waiting jobs than this, ends are reported at once, so that more jobs arrive.
const FEW: usize = 4;
/// After so long without a job all connections are closed.
const IDLE: Duration = Duration::from_secs(5);
/// A connection that was idle for so long is closed.
const KEPT: Duration = Duration::from_secs(30);
/// The fewest threads, so that checking a certificate in one does not stop all, and the most: they do little more than copy.
const THREADS: (usize, usize) = (2, 8);
const THREAD_NAME: &str = "penstock-http";

/// A job that ended.
#[derive(Debug)]
pub struct Done {
    /// Its number.
    pub ticket: u64,
    /// Its outcome.
    pub outcome: Outcome,
    /// From the request to the last byte.
    pub seconds: f64,
    /// Whether the limit of requests in flight was reached when it started.
    pub busy: bool,
}

/// Waiting jobs, the threads that do them, and jobs that ended.
pub struct Runner {
    shared: Arc<Shared>,
    runtime: Mutex<Option<Runtime>>,
    /// The process that has the threads.
    process: u32,
}

struct Shared {
    client: Client,
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    done: Vec<Done>,
    limit: usize,
    running: usize,
    /// Jobs started so far.
    begun: u64,
    /// Whether a task is waiting to close idle connections.
    watched: bool,
    woken: bool,
    closed: bool,
}

/// The threads of a runner: one for each usable CPU, within bounds, and one for look-ups by the system's resolver.
///
/// # Errors
/// If the system refuses to start threads.
pub(super) fn start() -> io::Result<Runtime> {
    thread::Builder::new().name(THREAD_NAME.into()).spawn(|| {})?; // the runtime would panic
    let cpus = thread::available_parallelism().map_or(THREADS.0, NonZero::get);
    let mut built = Builder::new_multi_thread();
    built.worker_threads(cpus.clamp(THREADS.0, THREADS.1)).max_blocking_threads(1);
    built.thread_name(THREAD_NAME).enable_all().build()
}

impl Runner {
    /// A runner whose requests take no longer than `timeout`; `is_plain` as for `Client::new`.
    #[must_use]
    pub fn new(timeout: Duration, is_plain: bool) -> Self {
        let shared =
            Shared { client: Client::new(timeout, KEPT, is_plain), state: Mutex::default(), news: Condvar::new() };
        Self { shared: Arc::new(shared), runtime: Mutex::default(), process: process::id() }
    }

    /// Starts jobs, `limit` at once; drops them if the runner is closed.
    ///
    /// # Errors
    /// If there are no threads yet, and the system refuses to start any.
    pub fn submit(&self, jobs: Vec<Job>, limit: usize) -> io::Result<()> {
        let mut runtime = self.runtime();
        if self.shared.lock().closed {
            return Ok(());
        }
        if runtime.is_none() {
            *runtime = Some(start()?);
        }
        let Some(runtime) = &*runtime else { return Ok(()) };
        let begun: Vec<_> = {
            let mut state = self.shared.lock();
            state.limit = limit;
            state.waiting.extend(jobs);
            std::iter::from_fn(|| state.begin()).collect()
        };
        for (job, busy) in begun {
            runtime.spawn(Arc::clone(&self.shared).serve(job, busy));
        }
        Ok(())
    }

    /// The jobs that ended since the last call; waits for one, for `wake`, or for the timeout.
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

    /// Makes the current or next `wait` return at once.
    pub fn wake(&self) {
        self.shared.lock().woken = true;
        self.shared.news.notify_all();
    }

    /// Drops waiting jobs and aborts those in flight; the threads end. Not in the child of a fork.
    pub fn close(&self) {
        if self.process != process::id() {
            return;
        }
        let mut runtime = self.runtime();
        let dropped = {
            let mut state = self.shared.lock();
            state.closed = true;
            std::mem::take(&mut state.waiting)
        };
        drop(dropped);
        self.shared.client.close();
        if let Some(runtime) = runtime.take() {
            runtime.shutdown_background();
        }
    }

    fn runtime(&self) -> MutexGuard<'_, Option<Runtime>> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.close();
        if self.process != process::id() {
            // The threads do not exist in the child and may have held any lock. The list of sockets that the system watches is the
            // parent's: a socket dropped here would not be watched there any more.
            std::mem::forget(Arc::clone(&self.shared));
            std::mem::forget(self.runtime.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

impl State {
    /// The next job that may start, and whether the limit is then reached.
    fn begin(&mut self) -> Option<(Job, bool)> {
        if self.running >= self.limit {
            return None;
        }
        let job = self.waiting.pop_front()?;
        self.running += 1;
        self.begun += 1;
        Some((job, self.running >= self.limit))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does a job, then others as long as some wait.
    async fn serve(self: Arc<Self>, job: Job, busy: bool) {
        let mut next = Some((job, busy));
        while let Some((job, busy)) = next {
            self.make(&job, busy).await;
            next = self.lock().begin();
        }
        self.watch().await;
    }

    async fn make(&self, job: &Job, busy: bool) {
        let broken_off = Outcome::Unreachable("the client was closed".into());
        let mut ending = Ending { shared: self, ticket: job.ticket, outcome: broken_off, began: Instant::now(), busy };
        job.begin();
        if !job.is_wanted() {
            ending.outcome = Outcome::Dropped;
            return;
        }
        let mut get = pin!(self.client.get(job));
        ending.outcome = poll_fn(|context| {
            catch_unwind(AssertUnwindSafe(|| get.as_mut().poll(context)))
                .unwrap_or_else(|_| Poll::Ready(Outcome::Unreachable("the client failed".into())))
        })
        .await;
    }

    /// Closes the connections once no job has started for a while; nothing else checks their age.
    async fn watch(&self) {
        if std::mem::replace(&mut self.lock().watched, true) {
            return;
        }
        loop {
            let before = self.lock().begun;
            sleep(IDLE).await;
            let mut state = self.lock();
            if state.running == 0 && state.begun == before {
                state.watched = false;
                self.client.close_idle();
                return;
            }
        }
    }
}

/// Reports how a job ended, even an aborted one.
struct Ending<'a> {
    shared: &'a Shared,
    ticket: u64,
    outcome: Outcome,
    began: Instant,
    busy: bool,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let outcome = std::mem::replace(&mut self.outcome, Outcome::Dropped);
        let done = Done { ticket: self.ticket, outcome, seconds: self.began.elapsed().as_secs_f64(), busy: self.busy };
        let mut state = self.shared.lock();
        state.running -= 1;
        state.done.push(done);
        if state.done.len() == 1 || state.waiting.len() < FEW {
            self.shared.news.notify_all();
        }
    }
}
