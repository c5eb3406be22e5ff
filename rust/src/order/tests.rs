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
    (sizes, any::<u64>(), 0..3).prop_map(|((samples, lanes_log, rows_per_lane, rows, window), key, kind)| match kind {
        0 => EpochOrder::natural(samples, 1 << lanes_log, rows_per_lane, rows),
        1 => EpochOrder::shuffled(samples, 1 << lanes_log, rows_per_lane, rows, window, key),
        _ => EpochOrder::streamed(samples, 1 << lanes_log, rows_per_lane, rows * rows * window, key),
    })
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
    fn windows_hold_whole_blocks_of_one_lane(order in orders(1..3_000, 5)) {
        let ids: Vec<i64> = (0..i64::try_from(order.samples).unwrap()).collect();
        let (mut lanes, mut first, mut end) = (ids.clone(), ids.clone(), ids.clone());
        order.windows(&ids, &mut lanes, &mut first, &mut end);
        for lane in 0..order.lanes {
            let mut found = vec![0; usize::try_from(order.lane_rows(lane)).unwrap()];
            order.lane_ids(lane, 0, &mut found);
            for (row, id) in (0_i64..).zip(found) {
                let id = usize::try_from(id).unwrap();
                prop_assert!((first[id]..end[id]).contains(&row));
                prop_assert_eq!(lanes[id], if order.is_natural() { -1 } else { i64::try_from(lane).unwrap() });
            }
        }
        let block_rows = usize::try_from(order.block_rows()).unwrap();
        let in_blocks = usize::try_from(order.tail_start()).unwrap();
        if !order.is_natural() {
            for id in 0..in_blocks {
                let start = id / block_rows * block_rows;
                prop_assert_eq!((lanes[id], first[id], end[id]), (lanes[start], first[start], end[start]));
            }
            for id in in_blocks..ids.len() {
                prop_assert_eq!(end[id] - first[id], 1);
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
}

/// Rows held at any time, and whether they are read ascending, are what a stream is about.
#[test]
fn a_stream_is_read_ascending_and_few_rows_are_held() {
    for (samples, lanes, window_rows) in [(100_000_u64, 64, 10_000_u64), (5_000, 8, 600), (3_000, 1, 500)] {
        let order = EpochOrder::streamed(samples, lanes, 1, window_rows, 7);
        let ids: Vec<i64> = (0..i64::try_from(samples).unwrap()).collect();
        let (mut lane, mut first, mut end) = (ids.clone(), ids.clone(), ids.clone());
        order.windows(&ids, &mut lane, &mut first, &mut end);
        let in_blocks = usize::try_from(order.tail_start()).unwrap();
        assert!(first[..in_blocks].is_sorted(), "windows begin in the order of the stream");
        let most = (0..i64::try_from(order.lane_rows(0)).unwrap())
            .step_by(17)
            .map(|row| (0..in_blocks).filter(|&id| first[id] <= row && row < end[id]).count())
            .max();
        assert!(most.unwrap() <= usize::try_from(window_rows).unwrap());
    }
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
