//! Long native calls that end early: on Ctrl-C in the main thread, and in a thread of a run that was stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use pyo3::prelude::*;
use rayon::ThreadPool;

/// Between two looks at signals and at the run. Shorter calls never look.
const LOOK: Duration = Duration::from_millis(50);

/// The result of `work`, which runs on the pool while the calling thread looks whether it is still wanted. If it is not, `work` finds the
/// flag set and ends early; what it returns is then dropped for KeyboardInterrupt or StoppedError.
pub fn watched<T: Send>(
    py: Python<'_>,
    pool: &ThreadPool,
    work: impl FnOnce(&Arc<AtomicBool>) -> T + Send,
) -> PyResult<T> {
    let stopped = Arc::new(AtomicBool::new(false));
    let found = py.detach(|| {
        let (sender, receiver) = sync_channel(1);
        pool.in_place_scope(|scope| {
            let wanted = &stopped;
            scope.spawn(move |_| drop(sender.send(work(wanted))));
            let mut ended_by = None;
            loop {
                match receiver.recv_timeout(LOOK) {
                    Ok(made) => return Some(ended_by.map_or(Ok(made), Err)),
                    Err(RecvTimeoutError::Disconnected) => return None, // it panicked: the scope goes on with that
                    Err(RecvTimeoutError::Timeout) if ended_by.is_none() => {
                        ended_by = Python::attach(look).err();
                        stopped.store(ended_by.is_some(), Ordering::Relaxed);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                }
            }
        })
    });
    found.expect("the scope raises the panic of what it ran")
}

/// Raises what a signal's handler raises, and StoppedError in a thread whose run was stopped.
fn look(py: Python<'_>) -> PyResult<()> {
    py.check_signals()?;
    py.import("penstock.core.cancel")?.call_method0("check")?;
    Ok(())
}
