//! All rows of a batch at once, each straight into its part of the output.

use std::borrow::Cow;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use rayon::ThreadPool;
use rayon::prelude::*;

use super::boxes::BoxColumn;
use super::contents::Loss;
use super::decode::Counts;
use super::emit::Format;
use super::fault::Fault;
use super::program::{Image, Program, Worker};
use super::simd::Level;

/// A complaint about one row of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFault {
    /// The row.
    pub row: usize,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What was done of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Images by decoder.
    pub counts: Counts,
    /// The first row that lost something as RGB, and what; None where none did, or that was not looked for.
    pub loss: Option<(usize, Loss)>,
}

/// How a batch is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// Bad rows do not stop the others.
    pub every_row: bool,
    /// What images lose as RGB is looked for.
    pub is_watching: bool,
}

/// Batches of at least so many bytes are written past the caches.
const PAST_CACHES: usize = 16 << 20;

thread_local! {
    static WORKER: RefCell<Option<Worker>> = const { RefCell::new(None) };
}

/// Runs `program` over `samples.len()` images, with their boxes if it asks for these, in parallel, into `out`, one image of the format after the other. Once `stopped` is set, it begins
/// no more of them, leaves long ones behind, and what it returns means nothing.
///
/// # Errors
/// The complaint about the lowest row that has one, whatever the order in which the threads came to them. With `How::every_row`, those about all rows that
/// have one, in order, and all others are in `out`.
///
/// # Panics
/// If `out` does not hold exactly one image a sample.
#[expect(clippy::too_many_arguments, reason = "what is read, what is written and how, each of another kind")]
pub fn run<'a>(
    program: &Program,
    boxes: Option<&BoxColumn>,
    image: impl Fn(usize) -> Result<Image<'a>, Fault> + Sync,
    samples: &[i64],
    key: u64,
    out: &mut [u8],
    pool: &ThreadPool,
    how: How,
    stopped: &Arc<AtomicBool>,
) -> Result<Done, Vec<RowFault>> {
    let size = program.format.bytes();
    assert_eq!(out.len(), size * samples.len(), "the output does not hold one image a sample");
    let past_caches = out.len() >= PAST_CACHES;
    let one = |worker: &mut Worker, row: usize, out: &mut [u8]| {
        worker.set_format(program.format, past_caches);
        with_boxes(program, boxes, row).run(worker, image(row)?, key, samples[row], out)
    };
    each(out.par_chunks_exact_mut(size.max(1)), one, program.format, pool, how, stopped)
}

/// Runs each of `views` on the pixels of every image, which is decoded once: see [`run`]. A view is a program, the boxes that it asks for, the key by which it draws, and its output.
///
/// # Errors
/// As those of [`run`].
///
/// # Panics
/// If an output does not hold exactly one image a sample, or there is no view.
pub fn run_views<'a>(
    views: &mut [(&Program, Option<&BoxColumn>, u64, &mut [u8])],
    image: impl Fn(usize) -> Result<&'a [u8], Fault> + Sync,
    samples: &[i64],
    pool: &ThreadPool,
    how: How,
    stopped: &Arc<AtomicBool>,
) -> Result<Done, Vec<RowFault>> {
    let mut outs: Vec<Vec<&mut [u8]>> = samples.iter().map(|_| Vec::with_capacity(views.len())).collect();
    let mut programs = Vec::with_capacity(views.len());
    for (program, boxes, key, out) in views.iter_mut() {
        let size = program.format.bytes();
        assert_eq!(out.len(), size * samples.len(), "an output does not hold one image a sample");
        programs.push((*program, *boxes, *key, out.len() >= PAST_CACHES));
        outs.iter_mut().zip(out.chunks_exact_mut(size.max(1))).for_each(|(outs, out)| outs.push(out));
    }
    let one = |worker: &mut Worker, row: usize, outs: Vec<&mut [u8]>| {
        let decoded = programs[0].0.decode(worker, image(row)?)?;
        let made = programs.iter().zip(outs).try_for_each(|(&(program, boxes, key, past_caches), out)| {
            worker.set_format(program.format, past_caches);
            let made = with_boxes(program, boxes, row).run(worker, decoded.image(), key, samples[row], out);
            worker.finish();
            made
        });
        worker.take_back(decoded);
        made
    };
    each(outs.into_par_iter(), one, programs[0].0.format, pool, how, stopped)
}

/// A program as it runs on a row: with the boxes of that, if there are any.
#[must_use]
pub fn with_boxes<'a>(program: &'a Program, boxes: Option<&BoxColumn>, row: usize) -> Cow<'a, Program> {
    boxes.map_or(Cow::Borrowed(program), |boxes| Cow::Owned(program.beside(boxes.row(row))))
}

/// Calls `one` for every row with what it writes to, and with its thread's worker.
pub(super) fn each<T: Send>(
    outs: impl IndexedParallelIterator<Item = T>,
    one: impl Fn(&mut Worker, usize, T) -> Result<(), Fault> + Sync,
    format: Format,
    pool: &ThreadPool,
    how: How,
    stopped: &Arc<AtomicBool>,
) -> Result<Done, Vec<RowFault>> {
    let lowest = AtomicUsize::new(usize::MAX);
    let (tally, losses) = (Default::default(), AtomicU64::new(u64::MAX));
    let tally: &[AtomicU64; 4] = &tally;
    let row_fault = |(row, out): (usize, T)| -> Option<RowFault> {
        if stopped.load(Ordering::Relaxed) || (!how.every_row && row > lowest.load(Ordering::Relaxed)) {
            return None;
        }
        let fault = match guarded(|worker| one(worker, row, out), format, how, tally, stopped) {
            Ok(None) => return None,
            Ok(Some(loss)) => {
                losses.fetch_min((row as u64) << 8 | loss as u64, Ordering::Relaxed);
                return None;
            }
            Err(fault) => fault,
        };
        lowest.fetch_min(row, Ordering::Relaxed);
        Some(RowFault { row, fault })
    };
    let rows = outs.enumerate().with_max_len(1);
    let mut faults: Vec<RowFault> = pool.install(|| rows.filter_map(row_fault).collect());
    if faults.is_empty() {
        let loss = losses.into_inner();
        let loss = Loss::numbered(loss as u8).map(|found| ((loss >> 8) as usize, found));
        return Ok(Done { counts: std::array::from_fn(|one| tally[one].load(Ordering::Relaxed)), loss });
    }
    faults.sort_unstable_by_key(|fault| fault.row);
    faults.truncate(if how.every_row { usize::MAX } else { 1 });
    Err(faults)
}

/// One image with this thread's worker: what it lost as RGB; a panic of a decoder becomes an error.
fn guarded(
    one: impl FnOnce(&mut Worker) -> Result<(), Fault>,
    format: Format,
    how: How,
    tally: &[AtomicU64; 4],
    stopped: &Arc<AtomicBool>,
) -> Result<Option<Loss>, Fault> {
    WORKER.with_borrow_mut(|slot| {
        let worker = slot.get_or_insert_with(|| Worker::new(Level::best(), format));
        worker.stop_by(stopped);
        worker.watch(how.is_watching);
        let result = catch_unwind(AssertUnwindSafe(|| one(worker)));
        worker.finish();
        let loss = worker.take_loss();
        for (sum, count) in tally.iter().zip(worker.take_counts()) {
            sum.fetch_add(count, Ordering::Relaxed);
        }
        let result = result.unwrap_or_else(|panic| {
            *slot = None;
            Err(Fault::of_panic(&*panic))
        });
        result.map(|()| loss)
    })
}
