//! The one pool of threads on which all kernels run.
//!
//! A pool belongs to the process that made it: in a forked child its threads do not exist, so the child gets a new one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
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

/// What `work` finds in the first task in which it finds anything. A single task is done in the calling thread, which waits
/// anyway; so are all of them without a pool.
pub(crate) fn find_first<T: Send, F: Send>(
    pool: Option<&ThreadPool>,
    tasks: Vec<T>,
    work: impl Fn(usize, T) -> Option<F> + Sync,
) -> Option<F> {
    match pool {
        Some(pool) if tasks.len() > 1 => {
            pool.install(|| tasks.into_par_iter().enumerate().find_map_first(|(number, task)| work(number, task)))
        }
        _ => tasks.into_iter().enumerate().find_map(|(number, task)| work(number, task)),
    }
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

    #[test]
    fn the_first_that_is_found_is_told() {
        let pool = shared(2).unwrap();
        for pool in [None, Some(&*pool)] {
            assert_eq!(find_first(pool, vec![1, 2, 3, 2], |number, task| (task == 2).then_some(number)), Some(1));
            assert_eq!(find_first(pool, vec![4], |_, task| Some(task)), Some(4));
            assert_eq!(find_first(pool, vec![4, 5], |_, _| None::<()>), None);
        }
    }
}
