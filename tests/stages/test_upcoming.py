"""When data is needed next, against the order itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.files.shards import Shards
from penstock.order.steps.batches import BatchOrder, Last
from penstock.order.steps.cursor import Work
from penstock.source.manifest import Manifest
from penstock.stages.read.upcoming import Upcoming
from support.orders import order_of

SAMPLES = 203


def manifest(*, single: bool) -> Manifest:
    """Records of 10 bytes in 3 shards, or one a shard."""
    counts = [1] * SAMPLES if single else [100, 3, 100]
    first = np.concatenate([[0], np.cumsum(counts)])
    paths = pa.array([str(n) for n in range(len(counts))], pa.large_string())
    sizes = np.array(counts) * 10
    shards = Shards(paths, sizes, np.zeros(len(counts), dtype=np.int64))
    if single:
        return Manifest("test", shards, first)
    offset = np.concatenate([np.arange(count) * 10 for count in counts])
    return Manifest("test", shards, first, offset, np.full(SAMPLES, 10))


def truth(order: BatchOrder, epoch: int, last: int, ranks: tuple[int, int], world: int) -> Any:
    """Steps until each sample is used next by some ranks, by looking at every step."""
    found = np.full(SAMPLES, np.inf)
    for later in reversed(range(8)):
        for step in reversed(range(order.steps_per_epoch)):
            if later or step > last:
                ids = [order.ids(epoch + later, step, 1, rank, world) for rank in range(*ranks)]
                found[np.concatenate(ids)] = step + later * order.steps_per_epoch - last
    return found


@pytest.mark.parametrize(
    ("ranks", "world"), [((0, 4), 4), ((1, 3), 4), ((3, 4), 4), ((0, 1), 3), ((1, 2), 3), ((2, 4), 6), ((7, 8), 12)]
)
@pytest.mark.parametrize("last", [Last.SHORT, Last.DROP])
def test_single_samples(ranks: tuple[int, int], world: int, last: Last) -> None:
    order = order_of(samples=SAMPLES, batch_size=12, lanes=4, seed=5, last=last)
    rows = 12 // world
    upcoming = Upcoming(order, manifest(single=True), (ranks[0] * rows, ranks[1] * rows))
    upcoming.position = Work(2, 3, 4)
    shard = np.arange(SAMPLES)
    found, wanted = upcoming(shard, np.zeros(SAMPLES, dtype=np.int64)), truth(order, 2, 6, ranks, world)
    others = found != wanted
    if order.lanes % world and last is Last.SHORT:
        # Which of the ranks that share a lane takes a row of the last, short step is not looked up: all are taken to.
        step = np.where(np.isfinite(found), found + 6, 0) % order.steps_per_epoch
        others &= (found > wanted) | (step != order.full_steps)
    assert not others.any()


def test_blocks_of_a_shared_lane_are_needed_by_those_that_have_rows_in_their_window() -> None:
    """30 rows a lane, of which this rank takes the last third, and windows of 8 rows."""
    order = order_of(samples=960, batch_size=30, lanes=1, seed=5, block_rows=4, window_blocks=2)
    rows = order.rows.epoch(0).block_rows
    upcoming = Upcoming(order, manifest(single=False), (20, 30))
    upcoming.position = Work(0, -1, 1)
    found = upcoming.steps(np.arange(0, order.rows.epoch(0).tail_start, rows))
    needed = {
        sample // rows * rows
        for step in range(32)
        for sample in order.ids(0, step, 1, 2, 3).tolist()
        if sample < order.rows.epoch(0).tail_start
    }
    assert rows == 4
    expected = {number * rows for number in np.flatnonzero(found <= 32).tolist()}
    assert needed <= expected
    lane = order.rows.ids(0, 0, 0, 960)
    taken = np.flatnonzero(np.arange(960) % 30 >= 20)
    for start in expected - needed:  # a block of a window of 8 rows, of which other ones are taken
        places = np.flatnonzero((lane >= start) & (lane < start + rows))
        assert min(abs(taken[:, None] - places).ravel()) < 8
    assert len(expected) < 240


def test_blocks_are_needed_with_the_first_of_their_windows_rows() -> None:
    order = order_of(samples=SAMPLES, batch_size=12, lanes=4, seed=5, block_rows=4, window_blocks=2)
    upcoming = Upcoming(order, manifest(single=False), (0, 12))
    upcoming.position = Work(1, 2, 1)
    alone, rows = truth(order, 1, 2, (0, 4), 4), order.rows.epoch(1).block_rows
    blocks = order.rows.epoch(1).tail_start // rows
    shard = np.repeat([0, 1, 2], [100, 3, 100])
    offset = np.concatenate([np.arange(n) * 10 for n in (100, 3, 100)]) + 7
    found = upcoming(shard, offset)
    assert rows > 1
    for block in range(blocks):
        mine = slice(block * rows, (block + 1) * rows)
        assert len(set(found[mine])) == 1
        # a window that is open now is in memory, and needed again in the next epoch
        assert found[mine][0] <= alone[mine].min() or alone[mine].min() < 6
    assert (found > 0).all()


def test_the_natural_order_comes_again() -> None:
    order = order_of(samples=SAMPLES, batch_size=10, lanes=2)
    upcoming = Upcoming(order, manifest(single=True), (0, 10))
    upcoming.position = Work(0, 4, 1)
    found = upcoming(np.array([0, 49, 50, 202]), np.zeros(4, dtype=np.int64))
    assert found.tolist() == [17, 21, 1, 16]


def test_what_is_drawn_is_the_position() -> None:
    order = order_of(samples=SAMPLES, batch_size=10, lanes=2)
    upcoming = Upcoming(order, manifest(single=True), (0, 10))
    works = upcoming.follow(iter([Work(0, 0, 2), Work(0, 2, 2)]))
    assert (next(works), upcoming.position) == (Work(0, 0, 2), Work(0, 0, 2))
    assert (next(works), upcoming.position) == (Work(0, 2, 2), Work(0, 2, 2))
