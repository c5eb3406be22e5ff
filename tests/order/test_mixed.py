"""Mixtures and repeated orders: exact shares, every row once a round, windows that hold, whatever is composed of what."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.spec import Ids
from penstock.order.batches import BatchOrder
from penstock.order.mixed import Mixed, Stop, mixed_rows
from penstock.order.natural import Natural
from penstock.order.protocol import RowOrder
from penstock.order.repeat import Repeat
from penstock.order.segments import Segments
from penstock.order.shuffled import Shuffled
from penstock.order.slice import Slice
from support.tries import tries


@st.composite
def orders(draw: st.DrawFn, depth: int = 2, begin: int = 0) -> tuple[RowOrder, int]:
    """An order on 4 lanes, and the end of its ids."""
    lanes, rows_per_lane = 4, 2
    kind = draw(st.sampled_from(["natural", "shuffled"] + ["mixed", "repeat", "slice"] * bool(depth)))
    if kind in ("natural", "shuffled"):
        segments = Segments(((begin, count := draw(st.integers(4, 40)), 1),))
        sizes = {
            "segments": segments,
            "lanes": lanes,
            "rows_per_lane": rows_per_lane,
            "wanted_rows": draw(st.integers(1, 5)),
        }
        if kind == "natural":
            return Natural(**sizes), begin + count
        return Shuffled(**sizes, window_blocks=draw(st.integers(1, 3)), seed=draw(st.integers(0, 9))), begin + count
    if kind == "mixed":
        inputs, first_ids = [], []
        for _ in range(draw(st.integers(1, 3))):
            first_ids.append(begin)
            order, begin = draw(orders(depth - 1, begin))
            if not order.lane_rows().min():
                order = Natural(
                    segments=Segments(((first_ids[-1], begin - first_ids[-1], 1),)),
                    lanes=lanes,
                    rows_per_lane=rows_per_lane,
                )
            inputs.append(order)
        stop = draw(st.sampled_from(Stop))
        return Mixed(
            inputs=tuple(inputs),
            first_ids=tuple(first_ids),
            quotas=tuple(draw(st.integers(1, 9)) for _ in inputs),
            stop=stop,
            rows=4 * draw(st.integers(1, 30)) if stop is Stop.ROWS else None,
        ), begin
    inner, begin = draw(orders(depth - 1, begin))
    if kind == "repeat":
        return Repeat(input=inner, times=draw(st.integers(1, 3))), begin
    rows = int(inner.lane_rows().sum())
    first = draw(st.integers(0, rows - 1))
    return Slice(input=inner, first=first, count=draw(st.integers(1, rows - first))), begin


def lanes_of(order: RowOrder, epoch: int) -> list[Ids]:
    return [order.ids(epoch, lane, 0, rows) for lane, rows in enumerate(order.lane_rows().tolist())]


@settings(max_examples=tries(1_500), deadline=None)
@given(orders(), st.integers(0, 3), st.integers(0, 40), st.integers(1, 60))
def test_any_part_of_a_lane_is_a_part_of_it(made: tuple[RowOrder, int], epoch: int, first: int, count: int) -> None:
    """Also past its end, where it begins again; and of the draws the same."""
    order, end = made
    for lane, ids in enumerate(lanes_of(order, epoch)):
        assert ((ids >= 0) & (ids < end)).all()
        if len(ids):
            wanted = np.resize(ids, first + count)[first:] if first + count > len(ids) else ids[first : first + count]
            assert order.ids(epoch, lane, first, count).tolist() == wanted.tolist()
        drawn = order.draws(epoch, lane, 0, len(ids))
        if len(ids):
            assert order.draws(epoch, lane, first, count).tolist() == np.resize(drawn, first + count)[first:].tolist()
            assert max(Counter(zip(ids.tolist(), drawn.tolist(), strict=True)).values()) == 1, (
                "one row was drawn twice alike"
            )


@settings(max_examples=tries(1_000), deadline=None)
@given(orders(), st.integers(0, 2), st.sampled_from([1, 2, 4]))
def test_a_block_is_opened_once_in_a_round(made: tuple[RowOrder, int], epoch: int, world: int) -> None:
    """Going through the even steps of an epoch, a rank opens a block about as often as its rows are drawn."""
    order, _ = made
    batches = BatchOrder(rows=order)
    last = batches.even_steps
    for rank in range(world):
        held: dict[int, tuple[int, int]] = {}
        opened: Counter[int] = Counter()
        drawn: dict[int, set[int]] = {}
        for step in range(last):
            ids = batches.ids(epoch, step, 1, rank, world)
            lane, row = batches.place(step, 1, rank, world, np.arange(len(ids)))
            draws = [order.draws(epoch, int(one), int(at), 1) for one, at in zip(lane, row, strict=True)]
            first, end, which = order.blocks(epoch, ids)
            for block, draw in zip(first[which].tolist(), draws, strict=True):
                drawn.setdefault(block, set()).add(int(draw[0]))
            some = np.array([which.tolist().index(number) for number in range(len(first))])
            until = order.until(epoch, lane[some], row[some], end - 1)
            for start, *where in zip(first.tolist(), *(one.tolist() for one in until), strict=True):
                if start not in held:
                    opened[start] += 1
                    held[start] = where[0], where[1]
            done = np.array([*held.values()], dtype=np.int64).reshape(-1, 2)
            stay = batches.is_open(step + 1, rank, world, *done.T).tolist()
            held = {start: where for (start, where), stays in zip(held.items(), stay, strict=True) if stays}
        # Lanes come to the next round of a natural order at different steps, and may share a block in both.
        assert all(times <= 2 * len(drawn[start]) for start, times in opened.items())


@pytest.mark.parametrize(("quotas", "lanes"), [((7, 3), 8), ((1, 1), 4), ((5, 3, 2), 8), ((1, 99), 4)])
def test_shares_are_exact(quotas: tuple[int, ...], lanes: int) -> None:
    """In every prefix of a lane, and in every step over all lanes."""
    rows_per_lane, inputs, begin, first_ids = 4, [], 0, []
    for number in range(len(quotas)):
        first_ids.append(begin)
        segments = Segments(((begin, 4_000, 1),))
        inputs.append(Shuffled(segments=segments, lanes=lanes, rows_per_lane=rows_per_lane, seed=number))
        begin += 4_000
    order = Mixed(inputs=tuple(inputs), first_ids=tuple(first_ids), quotas=quotas, stop=Stop.FIRST)
    share, most = np.array(quotas) / sum(quotas), 1 if len(quotas) == 2 else 2
    for ids in lanes_of(order, 0):
        counts = np.cumsum(ids[:, None] // 4_000 == np.arange(len(quotas)), axis=0)
        assert np.abs(counts - np.arange(1, len(ids) + 1)[:, None] * share).max() <= most + 1e-9
    batches = BatchOrder(rows=order)
    for step in range(batches.full_steps):
        found = np.bincount(batches.ids(0, step, 1, 0, 1) // 4_000, minlength=len(quotas))
        assert np.abs(found - batches.batch_size * share).max() <= most + 1e-9


def test_epochs_end_as_asked() -> None:
    def mixed(stop: Stop, rows: int | None = None) -> Mixed:
        small, large = (
            Shuffled(segments=Segments(((begin, count, 1),)), lanes=2, rows_per_lane=1, seed=3)
            for begin, count in ((0, 10), (10, 100))
        )
        return Mixed(inputs=(small, large), first_ids=(0, 10), quotas=(1, 1), stop=stop, rows=rows)

    def epoch(order: Mixed, number: int) -> list[int]:
        return np.concatenate(lanes_of(order, number)).tolist()

    first = epoch(mixed(Stop.FIRST), 0)
    assert len([one for one in first if one < 10]) >= 8
    assert len(set(first)) == len(first) in range(18, 24)
    every = Counter(epoch(mixed(Stop.ALL), 0))
    assert {*range(10, 110)} <= every.keys()
    assert all(8 <= every[one] <= 12 for one in range(10))
    on = [one for number in range(10) for one in epoch(mixed(Stop.ROWS, 20), number) if one >= 10]
    assert sorted(on) == [*range(10, 110)], "each epoch goes on where the one before ended"
    assert mixed_rows((1, 1), (10, 100), Stop.FIRST, None) in range(20, 23)
