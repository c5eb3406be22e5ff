//! The one pool of threads on which all kernels run.
//!
//! A pool belongs to the process that made it: in a forked child its threads do not exist, so the child gets a new one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// Pools by what they do and number of threads, with the process that made them.
static POOLS: Mutex<Option<(u32, Pools)>> = Mutex::new(None);
type Pools = HashMap<(&'static str, usize), Arc<ThreadPool>>;

/// The pool of `threads` threads on which this process runs kernels; all that ask for the same number share it.
///
/// # Errors
/// If the system refuses to start the threads.
pub fn shared(threads: usize) -> Result<Arc<ThreadPool>, ThreadPoolBuildError> {
    named("kernel", threads)
}

/// The pool of `threads` threads in which this process waits for files.
///
/// # Errors
/// If the system refuses to start the threads.
pub fn io(threads: usize) -> Result<Arc<ThreadPool>, ThreadPoolBuildError> {
    named("io", threads)
}

fn named(name: &'static str, threads: usize) -> Result<Arc<ThreadPool>, ThreadPoolBuildError> {
    let process = std::process::id();
    let mut guard = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    let (owner, pools) = guard.get_or_insert_with(|| (process, HashMap::new()));
    if *owner != process {
        // Dropping the parent's pools would wait for threads that this process does not have.
        std::mem::forget(std::mem::take(pools));
        *owner = process;
    }
    let threads = threads.max(1);
    if let Some(pool) = pools.get(&(name, threads)) {
        return Ok(Arc::clone(pool));
    }
    let pool =
        ThreadPoolBuilder::new().num_threads(threads).thread_name(move |i| format!("penstock-{name}-{i}")).build()?;
    Ok(Arc::clone(pools.entry((name, threads)).or_insert(Arc::new(pool))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_number_shares_a_pool() {
        let (one, two) = (shared(2).unwrap(), shared(2).unwrap());
        assert!(Arc::ptr_eq(&one, &two));
        assert_eq!(shared(3).unwrap().current_num_threads(), 3);
    }
}
