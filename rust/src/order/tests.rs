use std::ops::Range;

use proptest::prelude::*;

use super::*;

fn epoch(order: &EpochOrder) -> Vec<u64> {
    let mut all = Vec::new();
    for lane in 0..order.lanes {
        let mut ids = vec![0; usize::try_from(order.lane_rows(lane)).unwrap()];
        order.lane_ids(lane, 0, &mut ids);
        all.extend(ids);
    }
    all
}

/// Orders of so many samples, on fewer than 2^`lanes_log` lanes.
fn orders(samples: Range<u64>, lanes_log: u32) -> impl Strategy<Value = EpochOrder> {
    let sizes = (samples, 0..lanes_log, 1_u64..6, 1_u64..40, 1_u64..6);
    (sizes, any::<u64>(), any::<bool>()).prop_map(
        |((samples, lanes_log, rows_per_lane, rows, window), key, shuffled)| {
            if shuffled {
                EpochOrder::shuffled(samples, 1 << lanes_log, rows_per_lane, rows, window, key)
            } else {
                EpochOrder::natural(samples, 1 << lanes_log, rows_per_lane, rows)
            }
        },
    )
}

proptest! {
    #[test]
    fn every_sample_comes_once(order in orders(1..3_000, 5)) {
        let mut ids = epoch(&order);
        ids.sort_unstable();
        prop_assert!(ids.iter().copied().eq(0..order.samples));
        let lengths: Vec<u64> = (0..order.lanes).map(|lane| order.lane_rows(lane)).collect();
        prop_assert!(lengths.iter().max().unwrap() - lengths.iter().min().unwrap() <= 1);
    }

    #[test]
    fn blocks_hold_the_rows_and_belong_to_one_lane(
        samples in 64_u64..3_000, lanes_log in 0_u32..4, rows in 2_u64..40, window in 1_u64..6, key in any::<u64>(),
    ) {
        let lanes = 1 << lanes_log;
        let order = EpochOrder::shuffled(samples, lanes, 1, rows, window, key);
        let block = order.block_rows();
        let tail = order.tail_start();
        let mut owner = std::collections::HashMap::new();
        for lane in 0..lanes {
            let count = order.lane_rows(lane);
            for first in (0..count).step_by(7) {
                let last = (first + 7).min(count);
                let mut ids = vec![0; usize::try_from(last - first).unwrap()];
                order.lane_ids(lane, first, &mut ids);
                let blocks = order.lane_blocks(lane, first, last);
                for id in ids {
                    let start = if id >= tail { id } else { id / block * block };
                    prop_assert!(blocks.contains(&start));
                    prop_assert_eq!(*owner.entry(start).or_insert(lane), lane);
                }
            }
        }
    }

    #[test]
    fn shares_make_the_batch_together(order in orders(64..2_000, 5), ranks in 1_u64..12) {
        let batch = order.batch_rows();
        let ranks = (1..=ranks).rev().find(|ranks| batch.is_multiple_of(*ranks)).unwrap();
        let width = usize::try_from(batch / ranks).unwrap();
        let steps = usize::try_from(order.samples / batch).unwrap().min(40);
        let mut whole = vec![0; steps * width * usize::try_from(ranks).unwrap()];
        order.step_ids((0, batch), 0, &mut whole, None);
        let mut joined = vec![0; whole.len()];
        for rank in 0..ranks {
            let first = usize::try_from(rank).unwrap() * width;
            let mut part = vec![0; steps * width];
            order.step_ids((first as u64, (first + width) as u64), 0, &mut part, None);
            for (step, rows) in part.chunks_exact(width).enumerate() {
                joined[step * usize::try_from(batch).unwrap() + first..][..width].copy_from_slice(rows);
            }
        }
        prop_assert_eq!(joined, whole);
    }

    #[test]
    fn first_uses_are_those_of_the_order(order in orders(64..2_000, 4), from in 0_u64..64, rows in 1_u64..64) {
        let first = from % order.batch_rows();
        let share = (first, (first + rows).min(order.batch_rows()));
        let (shuffled, full) = (order.shuffle.is_some(), order.samples / order.batch_rows());
        let mut expected = vec![i64::MAX; usize::try_from(order.samples).unwrap()];
        for lane in 0..order.lanes {
            let mut ids = vec![0; usize::try_from(order.lane_rows(lane)).unwrap()];
            order.lane_ids(lane, 0, &mut ids);
            let mine: Vec<u64> = (0..order.rows_per_lane).filter(|at| (share.0..share.1).contains(&(lane * order.rows_per_lane + at))).collect();
            for (row, &id) in (0_u64..).zip(&ids) {
                // The natural order's blocks belong to all; the rows of the last, short step to all that have rows of the lane.
                let is_mine = mine.contains(&(row % order.rows_per_lane)) || (row / order.rows_per_lane >= full && !mine.is_empty());
                if shuffled && !is_mine {
                    continue;
                }
                let together = if together_is_one(&order, id) { vec![id] } else { order.lane_blocks(lane, row, row + 1) };
                for first in together {
                    let block = if together_is_one(&order, id) { 1 } else { order.block_rows() };
                    for id in first..first + block {
                        let step = &mut expected[usize::try_from(id).unwrap()];
                        *step = (*step).min(i64::try_from(row / order.rows_per_lane).unwrap());
                    }
                }
            }
        }
        expected.iter_mut().filter(|step| **step == i64::MAX).for_each(|step| *step = -1);
        let ids: Vec<i64> = (0..i64::try_from(order.samples).unwrap()).collect();
        let mut steps = vec![0; ids.len()];
        order.first_uses(share, &ids, &mut steps);
        prop_assert_eq!(steps, expected);
    }
}

fn together_is_one(order: &EpochOrder, id: u64) -> bool {
    order.shuffle.is_none() || order.block_rows() == 1 || id >= order.tail_start()
}

#[test]
fn natural_order_deals_rows_like_cards() {
    let order = EpochOrder::natural(10, 2, 2, 1);
    let mut ids = [0; 4];
    order.lane_ids(0, 0, &mut ids);
    assert_eq!(ids, [0, 1, 4, 5]);
    order.lane_ids(1, 0, &mut ids);
    assert_eq!(ids, [2, 3, 6, 7]);
}

#[test]
fn blocks_fit_with_a_short_tail() {
    let (rows, blocks) = fit_blocks(1_000_000, 64, 4_400);
    assert_eq!((rows, blocks), (5_208, 3));
    assert_eq!(fit_blocks(10, 64, 4), (1, 0));
    assert_eq!(fit_blocks(130, 64, 1), (1, 2));
    assert_eq!(fit_blocks(100, 64, 50), (1, 1));
}
