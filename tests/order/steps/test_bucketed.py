"""Buckets: a step's rows are of one bucket on all lanes, epochs differ, what lanes have left comes last."""

from __future__ import annotations

import numpy as np

from penstock.order.rows.segments import Segments
from penstock.order.rows.shuffled import Shuffled
from penstock.order.steps.batches import BatchOrder
from penstock.order.steps.bucketed import Bucketed

ROWS, BUCKETS, LANES, ROWS_PER_LANE = 1_000, 5, 4, 8
BUCKET_OF = np.random.default_rng(0).choice(BUCKETS, ROWS, p=[0.4, 0.3, 0.2, 0.09, 0.01])


def bucketed(seed: int | None = 3) -> Bucketed:
    runs = [Segments(tuple((int(row), 1, 1) for row in np.flatnonzero(one == BUCKET_OF))) for one in range(BUCKETS)]
    inputs = [
        Shuffled(segments=some, lanes=LANES, rows_per_lane=ROWS_PER_LANE, seed=number)
        for number, some in enumerate(runs)
    ]
    return Bucketed(inputs=tuple(inputs), bucket_of=BUCKET_OF, seed=seed)


def steps_of(order: Bucketed, epoch: int) -> list[np.ndarray]:
    batches = BatchOrder(rows=order)
    return [batches.ids(epoch, step, 1, 0, 1) for step in range(batches.steps_per_epoch)]


def test_a_step_is_of_one_bucket_on_all_ranks() -> None:
    order = bucketed()
    batches = BatchOrder(rows=order)
    assert order.even_steps > ROWS * 0.85 // (LANES * ROWS_PER_LANE)
    for epoch in range(3):
        found = []
        for step in range(order.even_steps):
            ranks = {int(one) for rank in range(4) for one in BUCKET_OF[batches.ids(epoch, step, 1, rank, 4)]}
            assert len(ranks) == 1
            found.append(ranks.pop())
        counts = np.bincount(found, minlength=BUCKETS)
        assert (counts <= np.bincount(BUCKET_OF) // (LANES * ROWS_PER_LANE)).all()
        assert (counts[:3] >= np.bincount(BUCKET_OF)[:3] // (LANES * ROWS_PER_LANE) - 1).all()


def test_whole_steps_are_what_lanes_say() -> None:
    order = bucketed()
    steps = int(order.lane_rows().min()) // ROWS_PER_LANE
    assert steps > order.even_steps
    found = np.empty(steps * LANES * ROWS_PER_LANE, dtype=np.int64)
    order.step_ids(1, (0, LANES * ROWS_PER_LANE), 0, found)
    lanes = [order.ids(1, lane, 0, steps * ROWS_PER_LANE).reshape(steps, ROWS_PER_LANE) for lane in range(LANES)]
    assert np.array_equal(found.reshape(steps, -1), np.concatenate(lanes, axis=1))


def test_an_epoch_has_every_row_once_and_others_follow_in_another_order() -> None:
    epochs = [np.concatenate(steps_of(bucketed(), epoch)) for epoch in range(2)]
    assert all(sorted(epoch.tolist()) == list(range(ROWS)) for epoch in epochs)
    turns = [BUCKET_OF[epoch[:: LANES * ROWS_PER_LANE]].tolist() for epoch in epochs]
    assert turns[0] != turns[1]
    assert np.array_equal(np.concatenate(steps_of(bucketed(), 1)), epochs[1])


def test_without_a_seed_buckets_follow_each_other() -> None:
    order = bucketed(seed=None)
    found = [int(BUCKET_OF[ids[0]]) for ids in steps_of(order, 0)[: order.even_steps]]
    assert found == sorted(found)


def test_what_is_left_comes_last_bucket_after_bucket() -> None:
    order = bucketed()
    for lane, rows in enumerate(order.lane_rows().tolist()):
        first = order.even_steps * ROWS_PER_LANE
        left = BUCKET_OF[order.ids(0, lane, first, rows - first)]
        assert left.tolist() == sorted(left.tolist())
