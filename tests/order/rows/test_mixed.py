"""Mixtures and repeated orders: exact shares, every row once a round, windows that hold, whatever is composed of what."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.columns.spec import Ids
from penstock.order.protocol import RowOrder, is_open
from penstock.order.rows.mixed import Mixed, Stop, mixed_rows
from penstock.order.rows.natural import Natural
from penstock.order.rows.repeat import RepeatedRows
from penstock.order.rows.segments import Segments
from penstock.order.rows.shuffled import Shuffled
from penstock.order.rows.slice import Slice
from penstock.order.steps.batches import BatchOrder
from support.tries import tries


def pieces(stop: Stop) -> st.SearchStrategy[list[int]]:
    """The rows of every lane at which weights change."""
    later = st.lists(st.integers(1, 60), max_size=3 if stop is Stop.ROWS else 0, unique=True)
    return later.map(lambda rows: [0, *sorted(rows)])


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
            quotas=tuple((row, tuple(draw(st.integers(1, 9)) for _ in inputs)) for row in draw(pieces(stop))),
            stop=stop,
            rows=4 * draw(st.integers(1, 30)) if stop is Stop.ROWS else None,
        ), begin
    inner, begin = draw(orders(depth - 1, begin))
    if kind == "repeat":
        return RepeatedRows(input=inner, times=draw(st.integers(1, 3))), begin
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
@given(orders(), st.integers(0, 3), st.integers(0, 20), st.integers(1, 20), st.integers(0, 7), st.integers(1, 8))
def test_the_native_order_is_the_same(
    made: tuple[RowOrder, int], epoch: int, step: int, steps: int, begin: int, count: int
) -> None:
    """Of whole steps and of lanes, ids and draws, as those that Python composes of the inputs'."""
    order, share = made[0], (begin, min(8, begin + count))
    slow = in_python(order)
    for fast, other in ((order.step_ids, slow.step_ids), (order.step_draws, slow.step_draws)):
        found, wanted = (np.full(steps * (share[1] - share[0]), -1) for _ in range(2))
        fast(epoch, share, step, found, threads=2)
        other(epoch, share, step, wanted)
        assert found.tolist() == wanted.tolist()
    for fast, other in ((order.ids, slow.ids), (order.draws, slow.draws)):
        assert fast(epoch, begin % 4, step, count).tolist() == other(epoch, begin % 4, step, count).tolist()


def in_python(order: RowOrder) -> RowOrder:
    """The same with no mixture made natively."""
    if isinstance(order, (RepeatedRows, Slice)):
        return replace(order, input=in_python(order.input))
    if not isinstance(order, Mixed):
        return order
    slow = replace(order, inputs=tuple(map(in_python, order.inputs)))
    vars(slow)["_native"] = None
    return slow


@settings(max_examples=tries(300), deadline=None)
@given(st.data(), st.integers(1, 5), st.sampled_from([1, 2, 4]))
def test_shares_are_exact_over_changes(data: st.DataObject, sources: int, rows_per_lane: int) -> None:
    """Of the first rows of a lane, however many, each dataset gives what the weights say of every piece, less than two rows a piece off."""
    begins = [0, *sorted(data.draw(st.sets(st.integers(1, 80), max_size=3)))]
    quotas = [tuple(data.draw(st.integers(1, 30)) for _ in range(sources)) for _ in begins]
    inputs = tuple(
        Shuffled(segments=Segments(((200 * number, 200, 1),)), lanes=4, rows_per_lane=rows_per_lane, seed=number)
        for number in range(sources)
    )
    order = Mixed(
        inputs=inputs,
        first_ids=tuple(range(0, 200 * sources, 200)),
        quotas=tuple(zip(begins, quotas, strict=True)),
        stop=Stop.ROWS,
        rows=4 * 40,
    )
    piece = np.searchsorted(begins, np.arange(120), side="right") - 1
    shares = np.array([np.array(some) / sum(some) for some in quotas])
    wanted, most = np.cumsum(shares[piece], axis=0), 1 if sources == 2 else 2
    seen: set[tuple[int, int]] = set()
    for lane in range(4):
        ids = np.concatenate([order.ids(epoch, lane, 0, 40) for epoch in range(3)])
        draws = np.concatenate([order.draws(epoch, lane, 0, 40) for epoch in range(3)])
        counts = np.cumsum(ids[:, None] // 200 == np.arange(sources), axis=0)
        assert (np.abs(counts - wanted).max(axis=1) <= most * (piece + 1) + 1e-9).all()
        rows = set(zip(ids.tolist(), draws.tolist(), strict=True))
        assert len(rows) == 120
        assert not rows & seen, "no dataset gives a row twice in a round"
        seen |= rows


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
            stay = is_open(batches.next_rows(step + 1, rank, world), *done.T).tolist()
            held = {start: where for (start, where), stays in zip(held.items(), stay, strict=True) if stays}
        # Lanes come to the next round of a natural order at different steps, and may share a block in both.
        # Epochs of a mix below may end within a round, and then end its blocks.
        assert all(times <= 2 * len(drawn[start]) * ends_within(order) for start, times in opened.items())


def ends_within(order: RowOrder) -> int:
    """In how many epochs of mixes with so many rows, below others, a round of a dataset may be."""
    below = getattr(order, "inputs", ()) or ((order.input,) if isinstance(order, (RepeatedRows, Slice)) else ())
    most = max(map(ends_within, below), default=1)
    for inner in below:
        if isinstance(inner, Mixed) and inner.stop is Stop.ROWS:
            rounds = max(int(one.lane_rows().max()) for one in inner.inputs) * sum(inner.quotas[-1][1])
            most *= 1 + rounds // int(inner.lane_rows().min())
    return most


@pytest.mark.parametrize(("quotas", "lanes"), [((7, 3), 8), ((1, 1), 4), ((5, 3, 2), 8), ((1, 99), 4)])
def test_shares_are_exact(quotas: tuple[int, ...], lanes: int) -> None:
    """In every prefix of a lane, and in every step over all lanes."""
    rows_per_lane, inputs, begin, first_ids = 4, [], 0, []
    for number in range(len(quotas)):
        first_ids.append(begin)
        segments = Segments(((begin, 4_000, 1),))
        inputs.append(Shuffled(segments=segments, lanes=lanes, rows_per_lane=rows_per_lane, seed=number))
        begin += 4_000
    order = Mixed(inputs=tuple(inputs), first_ids=tuple(first_ids), quotas=((0, quotas),), stop=Stop.FIRST)
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
        return Mixed(inputs=(small, large), first_ids=(0, 10), quotas=((0, (1, 1)),), stop=stop, rows=rows)

    def epoch(order: Mixed, number: int) -> list[int]:
        return np.concatenate(lanes_of(order, number)).tolist()

    first = epoch(mixed(Stop.FIRST), 0)
    assert len([one for one in first if one < 10]) >= 8
    assert len(set(first)) == len(first) in range(18, 24)
    every = Counter(epoch(mixed(Stop.ALL), 0))
    assert {*range(10, 110)} <= every.keys()
    assert all(8 <= every[one] <= 12 for one in range(10))
    on = [one for number in range(10) for one in epoch(mixed(Stop.ROWS, 20), number) if one >= 10]
    assert sorted(on) == [*range(10, 110)], "each epoch continues where the one before ended"
    assert mixed_rows((1, 1), (10, 100), Stop.FIRST, None) in range(20, 23)


@settings(max_examples=tries(300), deadline=None)
@given(
    st.lists(st.tuples(st.integers(4, 90), st.integers(1, 9), st.booleans()), min_size=1, max_size=5),
    st.sampled_from(Stop),
    st.integers(0, 3),
    st.integers(0, 50),
)
def test_native_blocks_are_those_of_the_inputs(
    sizes: list[tuple[int, int, bool]], stop: Stop, epoch: int, first: int
) -> None:
    """Blocks of rows, and when they are done, asked of all inputs at once and one by one."""
    inputs, first_ids, begin = list[RowOrder](), list[int](), 3
    for number, (count, wanted_rows, is_shuffled) in enumerate(sizes):
        shape = {"segments": Segments(((begin, count, 1),)), "lanes": 4, "rows_per_lane": 2, "wanted_rows": wanted_rows}
        inputs.append(Shuffled(**shape, window_blocks=2, seed=number) if is_shuffled else Natural(**shape))
        first_ids.append(begin)
        begin += count
    quotas = ((0, tuple(range(1, len(sizes) + 1))),)
    rows = 80 if stop is Stop.ROWS else None
    order, plain = (
        Mixed(inputs=tuple(inputs), first_ids=(0, *first_ids[1:]), quotas=quotas, stop=stop, rows=rows) for _ in "ab"
    )
    plain.__dict__["_native"] = None  # one by one
    for lane in range(4):
        count = min(30, int(order.lane_rows()[lane]))
        row = (first + np.arange(count)) % order.lane_rows()[lane]
        ids = order.ids(epoch, lane, first, count)
        found, wanted = order.blocks(epoch, ids), plain.blocks(epoch, ids)
        for one, other in zip(found, wanted, strict=True):
            assert one.tolist() == other.tolist()
        last = (found[1] - 1)[found[2]]
        lanes = np.full(count, lane)
        for one, other in zip(order.until(epoch, lanes, row, last), plain.until(epoch, lanes, row, last), strict=True):
            assert one.tolist() == other.tolist()
