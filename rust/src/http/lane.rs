//! Requests under way, some at once, made by a few threads; and a list of those that ended.

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

/// While jobs wait that nobody has begun, the ends of several are told together, this much later at most.
const TOGETHER: Duration = Duration::from_millis(2);
/// Fewer waiting jobs than this are told of at once, so that more come.
const FEW: usize = 4;
/// After so long without a job all connections are closed.
const IDLE: Duration = Duration::from_secs(5);
/// A connection that nobody used for so long is closed.
const KEPT: Duration = Duration::from_secs(30);
/// A lane's threads at least, so that a certificate that is checked in one does not stop all, and at most: they hardly do more than copy.
const THREADS: (usize, usize) = (2, 8);
const THREAD_NAME: &str = "penstock-http";

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

/// Jobs that wait, the threads that do them, and those that ended.
pub struct Lane {
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
    /// Jobs that ever began.
    begun: u64,
    /// Whether somebody looks after connections that nobody uses any more.
    watched: bool,
    woken: bool,
    closed: bool,
}

/// The threads of a lane: as many as this process may use CPUs, but for bounds, and one for what the system's resolver makes wait.
///
/// # Errors
/// If the system has none to give.
pub(super) fn start() -> io::Result<Runtime> {
    thread::Builder::new().name(THREAD_NAME.into()).spawn(|| {})?; // the runtime would panic
    let cpus = thread::available_parallelism().map_or(THREADS.0, NonZero::get);
    let mut built = Builder::new_multi_thread();
    built.worker_threads(cpus.clamp(THREADS.0, THREADS.1)).max_blocking_threads(1);
    built.thread_name(THREAD_NAME).enable_all().build()
}

impl Lane {
    /// A lane whose requests take no longer than `timeout`; `is_plain` as for `Client::new`.
    #[must_use]
    pub fn new(timeout: Duration, is_plain: bool) -> Self {
        let shared =
            Shared { client: Client::new(timeout, KEPT, is_plain), state: Mutex::default(), news: Condvar::new() };
        Self { shared: Arc::new(shared), runtime: Mutex::default(), process: process::id() }
    }

    /// Has jobs done, `limit` at once; drops them if the lane is closed.
    ///
    /// # Errors
    /// If there is no thread to do them, and the system has none to give.
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

    /// Drops what waits and breaks off what is under way; the threads end. Not in the child of a fork.
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

impl Drop for Lane {
    fn drop(&mut self) {
        self.close();
        if self.process != process::id() {
            // The threads do not exist here and may have held any lock, and the list of sockets that the system watches is the
            // parent's: a socket that is dropped here would be watched no more there.
            std::mem::forget(Arc::clone(&self.shared));
            std::mem::forget(self.runtime.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

impl State {
    /// The next job that may begin, and whether no other may begin beside it.
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

    /// Does a job, and others as long as some wait.
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

    /// Closes the connections, of which nobody else looks at the age, once no job has begun for a while.
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

/// Tells how a job ended, even one that is broken off.
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
