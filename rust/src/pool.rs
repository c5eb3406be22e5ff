//! The one pool of threads on which all kernels run.
//!
//! A pool belongs to the process that made it: in a forked child its threads do not exist, so the child gets a new one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::ThreadPool;

/// Pools by number of threads, with the process that made them.
static POOLS: Mutex<Option<(u32, HashMap<usize, Arc<ThreadPool>>)>> = Mutex::new(None);

/// The pool of `threads` threads of this process, made on first use; all kernels that ask for the same number share it.
///
/// # Errors
/// If the system refuses to start the threads.
pub fn shared(threads: usize) -> Result<Arc<ThreadPool>, rayon::ThreadPoolBuildError> {
    let process = std::process::id();
    let mut guard = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    let (owner, pools) = guard.get_or_insert_with(|| (process, HashMap::new()));
    if *owner != process {
        // Dropping the parent's pools would wait for threads that this process does not have.
        std::mem::forget(std::mem::take(pools));
        *owner = process;
    }
    if let Some(pool) = pools.get(&threads) {
        return Ok(Arc::clone(pool));
    }
    let pool = Arc::new(
        rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).thread_name(|i| format!("penstock-{i}")).build()?,
    );
    pools.insert(threads, Arc::clone(&pool));
    Ok(pool)
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
