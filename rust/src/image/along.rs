//! What lies along with the images of a batch: boxes, points and masks, which go where their image goes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::ThreadPool;
use rayon::prelude::*;

use super::batch::{self, Done, How, RowFault};
use super::boxes::{BoxColumn, BoxStep, Boxes};
use super::fault::Fault;
use super::moves::Moved;
use super::ops::follow::Follow;
use super::placing::Points;
use super::program::{Image, Program, Worker};

/// The images of a batch, as what lies along with them needs them.
#[derive(Clone, Copy, Debug)]
pub struct Along<'a> {
    /// What is done to them.
    pub program: &'a Program,
    /// Boxes that its operations ask for.
    pub boxes: Option<&'a BoxColumn>,
    /// Width and height of each where that begins; 0 for what is no image.
    pub sizes: &'a [(u32, u32)],
    /// Their ids.
    pub samples: &'a [i64],
    /// The epoch's key.
    pub key: u64,
}

impl Along<'_> {
    fn moves(&self, row: usize) -> Vec<Moved> {
        batch::with_boxes(self.program, self.boxes, row).moves(self.sizes[row], self.key, self.samples[row])
    }

    fn is_there(&self, row: usize) -> bool {
        self.sizes[row].0 > 0 && self.sizes[row].1 > 0
    }

    /// What becomes of the boxes of each row, and the numbers of those that are left, among all of them.
    pub fn moved_boxes(&self, boxes: &BoxColumn, steps: &[BoxStep], pool: &ThreadPool) -> Vec<(Boxes, Vec<usize>)> {
        let one = |row: usize| {
            let mut own = boxes.row(row);
            if !self.is_there(row) {
                let kept = (0..own.boxes.len()).map(|number| boxes.begin(row) + number).collect();
                return (own, kept);
            }
            let mut chain = self.program.beside(own.clone()).applied(self.sizes[row], self.key, self.samples[row]);
            if let Some(moved) = chain.boxes_mut().take() {
                own = moved;
            }
            let kept = own.finish(steps, chain.size());
            (own, kept.into_iter().map(|number| boxes.begin(row) + number).collect())
        };
        pool.install(|| (0..self.samples.len()).into_par_iter().map(one).collect())
    }

    /// Moves points with their images.
    ///
    /// # Errors
    /// Of each row: if the process may not have the memory.
    pub fn move_points(&self, points: &mut [Points], pool: &ThreadPool) -> Vec<RowFault> {
        let one = |(row, points): (usize, &mut Points)| {
            if !self.is_there(row) {
                return None;
            }
            let moves = self.moves(row);
            let fault = moves.iter().find_map(|moved| points.follow(moved).err())?;
            Some(RowFault { row, fault })
        };
        pool.install(|| points.par_iter_mut().enumerate().filter_map(one).collect())
    }

    /// Runs masks, each through what is done to the image of its row and then through `program`, into `out`, one after the other.
    ///
    /// # Errors
    /// As those of `batch::run`; rows are those of the images.
    #[expect(clippy::too_many_arguments, reason = "what is read, what is written and how, each of another kind")]
    pub fn run_masks<'a>(
        &self,
        program: &Program,
        mask: impl Fn(usize) -> Result<Image<'a>, Fault> + Sync,
        rows: &[usize],
        fill: f64,
        out: &mut [u8],
        pool: &ThreadPool,
        how: How,
        stopped: &Arc<AtomicBool>,
    ) -> Result<Done, Vec<RowFault>> {
        let format = program.format;
        let one = |worker: &mut Worker, number: usize, out: &mut [u8]| {
            let row = rows[number];
            if !self.is_there(row) {
                return Ok(()); // its image has an error of its own
            }
            let (size, moves) = (self.sizes[row], self.moves(row));
            worker.set_format(format, false);
            program.behind(Arc::new(Follow { size, moves, fill })).run(
                worker,
                mask(number)?,
                self.key,
                self.samples[row],
                out,
            )
        };
        let outs = out.par_chunks_exact_mut(format.bytes().max(1));
        batch::each(outs, one, format, pool, how, stopped).map_err(|mut faults| {
            faults.iter_mut().for_each(|fault| fault.row = rows[fault.row]);
            faults.dedup_by_key(|fault| fault.row);
            faults
        })
    }
}
