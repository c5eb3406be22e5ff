"""The arithmetic of the order against a slow and obvious model, and its statistics."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.core import kernels
from penstock.order.blocks import BLOCK_BYTES, default_block_rows
from penstock.order.lanes import MAX_LANES, default_lanes, divisors, share_of_rank
from penstock.order.steps.batches import BatchOrder, Last
from penstock.order.steps.cursor import Position, Work, works
from support.orders import order_of
from support.tries import tries


@pytest.mark.parametrize(
    ("batch", "lanes"), [(256, 64), (240, 48), (120, 40), (1, 1), (7, 7), (96, 32), (1024, 64), (127, 1), (60, 60)]
)
def test_default_lanes(batch: int, lanes: int) -> None:
    assert default_lanes(batch) == lanes


@given(st.integers(1, 5000))
def test_default_lanes_divide(batch: int) -> None:
    lanes = default_lanes(batch)
    assert batch % lanes == 0
    assert lanes <= MAX_LANES
    assert divisors(batch) == [d for d in range(1, batch + 1) if batch % d == 0]


def test_shares_of_ranks() -> None:
    assert [share_of_rank(96, rank, 3) for rank in range(3)] == [(0, 32), (32, 64), (64, 96)]
    for rank, world in ((4, 4), (-1, 4), (0, 0)):
        with pytest.raises(ps.PlanError, match="is not among"):
            share_of_rank(64, rank, world)


@pytest.mark.parametrize(
    ("batch", "world", "ranks", "rows"),
    [
        (96, 7, "6 or 8 ranks", "91 or 98 rows"),
        (96, 100, "96 ranks", "100 rows"),
        (7, 2, "1 or 7 ranks", "6 or 8 rows"),
    ],
)
def test_ranks_that_do_not_divide_the_batch_hear_which_do(batch: int, world: int, ranks: str, rows: str) -> None:
    with pytest.raises(
        ps.PlanError,
        match=f"world_size={world} does not divide the global batch of {batch} rows.* with {ranks}, or with {rows}$",
    ):
        share_of_rank(batch, 0, world)


def test_default_block_rows() -> None:
    assert default_block_rows(10_000, 10_000 * 100_000, 10) == 10
    assert default_block_rows(10_000, 10_000, 10) == 1_000
    assert default_block_rows(3, 9 * BLOCK_BYTES, 3) == 1
    assert default_block_rows(0, 0, 0) == 1


def test_works() -> None:
    def steps(start: Position, **sizes: int) -> list[Work]:
        return list(islice(works(start, **sizes), 6))

    assert steps(Position(0, 3), steps_per_epoch=6, full_steps=5, steps_per_work=4) == [
        Work(0, 3, 1), Work(0, 4, 1), Work(0, 5, 1), Work(1, 0, 4), Work(1, 4, 1), Work(1, 5, 1),
    ]  # fmt: skip
    assert steps(Position(2, 1), steps_per_epoch=1, full_steps=0, steps_per_work=9)[0] == Work(3, 0, 1)


@given(st.integers(1, 40), st.booleans(), st.integers(1, 9), st.integers(0, 39))
def test_works_cover_all_steps_once(full: int, rest: bool, together: int, start: int) -> None:
    steps = full + rest
    start %= steps
    found = []
    for work in works(Position(0, start), steps_per_epoch=steps, full_steps=full, steps_per_work=together):
        if work.epoch == 2:
            break
        assert work.step + work.steps <= full or work.steps == 1
        assert work.steps <= together
        found += [(work.epoch, step) for step in range(work.step, work.step + work.steps)]
    assert found == [(0, step) for step in range(start, steps)] + [(1, step) for step in range(steps)]


@st.composite
def orders(draw) -> BatchOrder:
    size = draw(st.integers(1, 40))
    return order_of(
        samples=draw(st.integers(1, 400)),
        batch_size=size,
        lanes=draw(st.sampled_from(divisors(size))),
        block_rows=draw(st.integers(1, 30)),
        window_blocks=draw(st.integers(1, 4)),
        seed=draw(st.none() | st.integers(0, 2**64 - 1)),
        last=draw(st.sampled_from([Last.SHORT, Last.PAD, Last.WRAP])),
    )


@settings(max_examples=tries(2_000), deadline=None)
@given(orders(), st.integers(0, 5))
def test_lanes_blocks_and_windows(order: BatchOrder, epoch: int) -> None:
    """A lane's rows are whole windows of its own blocks, each window mixed in itself; all lanes together are the data."""
    made = order.rows.epoch(epoch)
    lanes = [made.lane_ids(lane, 0, made.lane_rows(lane)) for lane in range(order.lanes)]
    assert sorted(np.concatenate(lanes).tolist()) == list(range(order.samples))
    sizes = [len(ids) for ids in lanes]
    assert max(sizes) - min(sizes) <= 1
    if not order.rows.shape.is_shuffled:
        return
    tail, block_rows = made.tail_start, made.block_rows
    owners = [{int(i) // block_rows for i in ids if i < tail} for ids in lanes]
    assert sum(map(len, owners)) == len(set().union(*owners)), "a block in two lanes"
    window_rows = block_rows * (1 if block_rows == 1 else order.rows.shape.window_blocks)
    for ids in lanes:
        blocks = [int(i) // block_rows for i in ids if i < tail]
        opened = {block: blocks.index(block) for block in set(blocks)}
        for block, first in opened.items():
            last = len(blocks) - 1 - blocks[::-1].index(block)
            assert last - first < window_rows, "a block stays open for longer than its window"


@settings(max_examples=tries(1_500), deadline=None)
@given(orders(), st.integers(0, 3))
def test_steps_take_as_many_rows_from_every_lane(order: BatchOrder, epoch: int) -> None:
    """The model of DESIGN: step k has rows [k·B/L, (k + 1)·B/L) of every lane, lane after lane; missing rows start again."""
    made = order.rows.epoch(epoch)
    lanes = [made.lane_ids(lane, 0, made.lane_rows(lane)).tolist() for lane in range(order.lanes)]
    for step in range(order.steps_per_epoch):
        wanted, valid = [], []
        for lane in lanes:
            rows = range(step * order.rows_per_lane, (step + 1) * order.rows_per_lane)
            real = [row < len(lane) for row in rows]
            if order.last is Last.SHORT:
                wanted += [lane[row] for row, is_real in zip(rows, real, strict=True) if is_real]
            else:
                wanted += [lane[row % len(lane)] if lane else None for row in rows]
                valid += real
        found = order.ids(epoch, step, 1, 0, 1).tolist()
        assert len(found) == len(wanted)
        assert all(w is None or f == w for f, w in zip(found, wanted, strict=True))
        if order.last is not Last.SHORT:
            assert order.valid(step, 0, 1).tolist() == valid
    every = order.ids(epoch, 0, order.steps_per_epoch, 0, 1).tolist()
    assert every == [i for step in range(order.steps_per_epoch) for i in order.ids(epoch, step, 1, 0, 1).tolist()]


@settings(max_examples=tries(3_000), deadline=None)
@given(orders(), st.integers(0, 3), st.data())
def test_ranks_share_every_batch(order: BatchOrder, epoch: int, data: st.DataObject) -> None:
    """Any number of ranks that divides the batch: their parts, joined in rank order, are what one rank has."""
    world = data.draw(st.sampled_from(divisors(order.batch_size)))
    for step in range(order.steps_per_epoch):
        whole = order.ids(epoch, step, 1, 0, 1).tolist()
        parts = [order.ids(epoch, step, 1, rank, world).tolist() for rank in range(world)]
        assert [sample for part in parts for sample in part] == whole
        sizes = {len(part) for part in parts}
        assert max(sizes) - min(sizes) <= (step >= order.full_steps), "unequal, but not in the last, short batch"
        if len(whole) == order.batch_size:
            joined = np.concatenate([order.valid(step, rank, world) for rank in range(world)])
            assert joined.tolist() == order.valid(step, 0, 1).tolist()
    together = min(3, order.steps_per_epoch)
    for rank in range(world):
        one_by_one = [order.ids(epoch, step, 1, rank, world) for step in range(together)]
        assert order.ids(epoch, 0, together, rank, world).tolist() == np.concatenate(one_by_one).tolist()


@settings(max_examples=tries(1_500), deadline=None)
@given(orders(), st.integers(0, 3), st.data())
def test_parts_are_where_the_rows_lie(order: BatchOrder, epoch: int, data: st.DataObject) -> None:
    world = data.draw(st.sampled_from(divisors(order.batch_size)))
    rank = data.draw(st.integers(0, world - 1))
    made = order.rows.epoch(epoch)
    for step in range(order.steps_per_epoch):
        lanes, first, count = (column.tolist() for column in order.parts(step, rank, world))
        rows = [int(i) for part in zip(lanes, first, count, strict=True) for i in made.lane_ids(*part)]
        assert rows == order.ids(epoch, step, 1, rank, world).tolist()


@pytest.mark.parametrize(("batch", "lanes", "world", "rows"), [(96, 32, 3, 11), (384, 64, 24, 3), (240, 48, 5, 10)])
def test_ranks_share_few_lanes(batch: int, lanes: int, world: int, rows: int) -> None:
    """No rank looks into more lanes than its rows need; the numbers of issue 13."""
    order = order_of(samples=10 * batch, batch_size=batch, lanes=lanes, seed=0)
    assert max(len(order.parts(3, rank, world)[0]) for rank in range(world)) <= rows + 1
    assert default_lanes(batch) == lanes


@given(st.integers(1, 300), st.integers(1, 40))
def test_natural_order_is_what_everyone_expects(samples: int, size: int) -> None:
    order = order_of(samples=samples, batch_size=size, lanes=default_lanes(size))
    assert order.ids(0, 0, order.steps_per_epoch, 0, 1).tolist() == list(range(samples))


@pytest.mark.parametrize("block_rows", [1, 8])
def test_every_sample_is_equally_likely_everywhere(block_rows: int) -> None:
    """Over many epochs, each sample's mean place is the middle, and each decile of places is hit equally often."""
    order = order_of(samples=400, batch_size=16, lanes=8, block_rows=block_rows, window_blocks=2, seed=9)
    epochs = 600
    places = np.empty((epochs, 400))
    for epoch in range(epochs):
        places[epoch, order.ids(epoch, 0, order.steps_per_epoch, 0, 1)] = np.arange(400)
    assert abs(places.mean(axis=0) - 199.5).max() < 5.5 * 115.5 / epochs**0.5
    counts = np.stack([np.bincount((column // 40).astype(int), minlength=10) for column in places.T])
    chi = ((counts - epochs / 10) ** 2 / (epochs / 10)).sum(axis=1)
    assert chi.mean() < 10.5  # 9 degrees of freedom
    assert chi.max() < 40


def test_epochs_are_unrelated() -> None:
    order = order_of(samples=10_000, batch_size=100, lanes=50, seed=0)
    a, b = (order.ids(epoch, 0, 100, 0, 1) for epoch in (0, 1))
    assert (a == b).mean() < 0.005
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.04
    other = order_of(samples=10_000, batch_size=100, lanes=50, seed=1).ids(0, 0, 100, 0, 1)
    assert not np.array_equal(other, b), "seed 1, epoch 0 is not seed 0, epoch 1"


def test_huge_datasets_cost_nothing() -> None:
    order = order_of(samples=10**15, batch_size=4096, lanes=64, block_rows=1000, window_blocks=2, seed=1)
    ids = order.ids(5, order.full_steps - 1, 1, 3, 8)
    assert len(ids) == 512
    assert len(set(ids.tolist())) == 512
    assert ids.min() >= 0
    assert ids.max() < 10**15


def test_mixing_is_not_adding() -> None:
    assert kernels.mix([1, 0]) != kernels.mix([0, 1])
