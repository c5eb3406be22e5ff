"""Segments, concat and slice against slow and obvious models, and the protocol that every order keeps."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.columns.spec import Ids
from penstock.order.lanes import deal
from penstock.order.protocol import RowOrder, Shape, is_open
from penstock.order.rows.concat import ConcatRows
from penstock.order.rows.natural import Natural
from penstock.order.rows.segments import Segments
from penstock.order.rows.shuffled import Shuffled
from penstock.order.rows.slice import Slice
from penstock.order.steps.batches import BatchOrder, Last
from penstock.order.steps.bucketed import Bucketed
from support.tries import tries

RUNS = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 30), st.sampled_from([1, 1, 2, 5])), min_size=1, max_size=4)


def segments_of(gaps: list[tuple[int, int, int]]) -> Segments:
    """Runs of ids that do not overlap, with gaps between them."""
    runs, end = [], 0
    for gap, count, distance in gaps:
        runs.append((end + gap, count, distance))
        end += gap + (count - 1) * distance + 1
    return Segments(tuple(runs))


@given(RUNS, st.randoms(use_true_random=False), st.integers(0, 60), st.integers(1, 60))
def test_segments(gaps: list[tuple[int, int, int]], random: object, first: int, count: int) -> None:
    runs = [*segments_of(gaps).runs]
    random.shuffle(runs)  # type: ignore[attr-defined]
    segments = Segments(tuple(runs))
    ids = [number for start, rows, by in runs for number in range(start, start + rows * by, by)]
    assert segments.ids(np.arange(segments.rows)).tolist() == ids
    every = np.arange(max(ids) + 3)
    places = [ids.index(number) if number in ids else -1 for number in every.tolist()]
    assert segments.places(every).tolist() == places
    cut = segments.sliced(first, count)
    assert cut.ids(np.arange(cut.rows)).tolist() == ids[first : first + count]
    thinned = segments.every(1 + first)
    assert thinned.ids(np.arange(thinned.rows)).tolist() == ids[:: 1 + first]
    assert segments.joined(cut).rows == len(ids) + cut.rows


@given(st.integers(0, 200), st.lists(st.integers(0, 20), min_size=1, max_size=12))
def test_deal(rows: int, room: list[int]) -> None:
    dealt = deal(rows, np.array(room, dtype=np.int64))
    assert dealt.sum() == min(rows, sum(room))
    assert (dealt <= room).all()
    left = [lane for lane in range(len(room)) if dealt[lane] < room[lane]]
    assert all(dealt[lane] >= dealt.max() - 1 for lane in left), "a lane with room has two rows fewer than another"


@st.composite
def orders(draw: st.DrawFn) -> RowOrder:
    lanes, rows_per_lane = draw(st.integers(1, 5)), draw(st.integers(1, 4))

    def shuffled(segments: Segments) -> Shuffled:
        return Shuffled(
            segments=segments,
            lanes=lanes,
            rows_per_lane=rows_per_lane,
            wanted_rows=draw(st.integers(1, 6)),
            window_blocks=draw(st.integers(1, 3)),
            seed=draw(st.integers(0, 9)),
        )

    if draw(st.booleans()):
        return bucketed(draw, lanes, rows_per_lane)
    if draw(st.booleans()):
        wanted = draw(st.integers(1, 6))
        return Natural(segments=segments_of(draw(RUNS)), lanes=lanes, rows_per_lane=rows_per_lane, wanted_rows=wanted)
    inputs, first_ids, begin = [], [], 0
    for _ in range(draw(st.integers(1, 3))):
        segments = segments_of(draw(RUNS))
        inputs.append(shuffled(Segments(tuple((begin + start, *run) for start, *run in segments.runs))))
        first_ids.append(begin)
        first, count, distance = segments.runs[-1]
        begin += first + (count - 1) * distance + 1
    made: RowOrder = inputs[0] if len(inputs) == 1 else ConcatRows(inputs=tuple(inputs), first_ids=tuple(first_ids))
    if draw(st.booleans()):
        rows = int(made.lane_rows().sum())
        first = draw(st.integers(0, rows - 1))
        made = Slice(input=made, first=first, count=draw(st.integers(1, rows - first)))
    return made


def bucketed(draw: st.DrawFn, lanes: int, rows_per_lane: int) -> Bucketed:
    bucket_of = np.array(draw(st.lists(st.integers(0, 3), min_size=1, max_size=120)))
    shuffles = draw(st.booleans())
    inputs: list[RowOrder] = []
    for bucket in range(4):
        segments = Segments(tuple((int(number), 1, 1) for number in np.flatnonzero(bucket_of == bucket)))
        if segments.rows and shuffles:
            inputs.append(Shuffled(segments=segments, lanes=lanes, rows_per_lane=rows_per_lane, seed=bucket))
        elif segments.rows:
            inputs.append(Natural(segments=segments, lanes=lanes, rows_per_lane=rows_per_lane))
    _, numbers = np.unique(bucket_of, return_inverse=True)
    return Bucketed(inputs=tuple(inputs), bucket_of=numbers, seed=draw(st.sampled_from([None, 0, 1])))


def lanes_of(order: RowOrder, epoch: int) -> list[Ids]:
    return [order.ids(epoch, lane, 0, rows) for lane, rows in enumerate(order.lane_rows().tolist())]


@settings(max_examples=tries(1_500), deadline=None)
@given(orders(), st.integers(0, 2))
def test_every_order_keeps_the_protocol(order: RowOrder, epoch: int) -> None:
    lanes = lanes_of(order, epoch)
    ids = np.concatenate(lanes)
    assert len(set(ids.tolist())) == len(ids)
    first, end, which = order.blocks(epoch, ids)
    assert (first == np.unique(first)).all() or len(first) == len(set(first.tolist()))
    assert ((ids >= first[which]) & (ids < end[which])).all()
    assert np.bincount(which).max(initial=0) <= max(1, order.shape.block_rows)
    lane, low, high = order.windows(epoch, ids, np.zeros(order.shape.lanes, dtype=np.int64))
    at = 0
    for number, rows in enumerate(map(len, lanes)):
        mine = slice(at, at + rows)
        assert ((lane[mine] == number) | (lane[mine] == -1)).all()
        assert ((low[mine] <= np.arange(rows)) & (np.arange(rows) < high[mine])).all()
        at += rows
    again = order.ids(epoch, 0, 1, 2 * len(lanes[0])) if len(lanes[0]) else ids[:0]
    assert again.tolist() == [*lanes[0][1:].tolist(), *lanes[0].tolist(), *lanes[0][:1].tolist()][: len(again)]


@settings(max_examples=tries(1_000), deadline=None)
@given(orders(), st.sampled_from(Last), st.integers(0, 2))
def test_batches_take_every_row_once_on_any_ranks(order: RowOrder, last: Last, epoch: int) -> None:
    every = np.concatenate(lanes_of(order, epoch)).tolist()
    size = order.shape.lanes * order.shape.rows_per_lane
    if last is Last.DROP and len(every) < size:
        return
    batches = BatchOrder(rows=order, last=last)
    alone = [batches.ids(epoch, step, 1, 0, 1) for step in range(batches.steps_per_epoch)]
    for world in (world for world in range(2, size + 1) if size % world == 0):
        for step, wanted in enumerate(alone):
            ranks = [batches.ids(epoch, step, 1, rank, world) for rank in range(world)]
            assert np.concatenate(ranks).tolist() == wanted.tolist()
    steps = batches.full_steps
    assert np.concatenate([*alone[:steps], every[:0]]).tolist() == batches.ids(epoch, 0, steps, 0, 1).tolist()
    found = [number for step in alone for number in step.tolist()]
    if last is Last.DROP:
        assert len(set(found)) == len(found) == len(every) // size * size
    elif last is Last.SHORT:
        assert sorted(found) == sorted(every)
        assert all(len(step) == size for step in alone[:-1])
    else:
        valid = np.concatenate([batches.valid(step, 0, 1) for step in range(len(alone))])
        assert sorted(np.array(found)[valid].tolist()) == sorted(every)


@settings(max_examples=tries(600), deadline=None)
@given(orders(), st.integers(0, 2))
def test_a_block_stays_open_until_its_rank_has_its_rows(order: RowOrder, epoch: int) -> None:
    batches = BatchOrder(rows=order)
    for step in range(batches.steps_per_epoch):
        later = [batches.ids(epoch, after, 1, 0, 1) for after in range(step + 1, batches.steps_per_epoch)]
        now = batches.ids(epoch, step, 1, 0, 1)
        first, end, _ = order.blocks(epoch, now)
        some = np.array([order.blocks(epoch, now)[2].tolist().index(block) for block in range(len(first))])
        until = order.until(epoch, *batches.place(step, 1, 0, 1, some), end - 1)
        kept = is_open(batches.next_rows(step + 1, 0, 1), *until)
        if step + 1 <= batches.even_steps:  # of what lanes have left then, blocks may be opened again
            for begin, stop, is_kept in zip(first.tolist(), end.tolist(), kept.tolist(), strict=True):
                rest = [number for some in later[: batches.even_steps - step - 1] for number in some.tolist()]
                assert is_kept or not any(begin <= number < stop for number in rest)


def test_many_small_orders_fill_the_lanes_equally() -> None:
    """Of each of ten inputs, one lane has a row more: not the same one every time."""
    inputs = tuple(
        Shuffled(segments=Segments(((5 * number, 5, 1),)), lanes=2, rows_per_lane=2, seed=number)
        for number in range(10)
    )
    order = ConcatRows(inputs=inputs, first_ids=tuple(range(0, 50, 5)))
    assert order.lane_rows().tolist() == [25, 25]
    batches = BatchOrder(rows=order)
    assert (batches.even_steps, batches.full_steps, batches.steps_per_epoch) == (12, 12, 13)
    found = np.concatenate([batches.ids(0, step, 1, 0, 1) for step in range(13)])
    assert (abs(found // 5 - np.arange(50) // 5) <= 1).all(), "an input's rows come long before or after their turn"


class Lists(RowOrder):
    """Lanes as they are given, of any lengths."""

    def __init__(self, *lanes: list[int]) -> None:
        self.of_lane = [np.array(lane, dtype=np.int64) for lane in lanes]

    @property
    def shape(self) -> Shape:
        return Shape(lanes=len(self.of_lane), rows_per_lane=2)

    def lane_rows(self) -> Ids:
        return np.array([len(ids) for ids in self.of_lane], dtype=np.int64)

    def ids(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        return self.of_lane[lane][(first + np.arange(count)) % len(self.of_lane[lane])]

    def blocks(self, epoch: int, ids: Ids) -> tuple[Ids, Ids, Ids]:
        return ids, ids + 1, np.arange(len(ids))

    def until(self, epoch: int, lane: Ids, row: Ids, last: Ids) -> tuple[Ids, Ids]:
        raise NotImplementedError

    def windows(self, epoch: int, ids: Ids, after: Ids) -> tuple[Ids, Ids, Ids]:
        raise NotImplementedError


def test_what_long_lanes_have_left_comes_lane_after_lane() -> None:
    order = Lists([0, 1, 2], [10, 11, 12, 13, 14, 15, 16], [20, 21, 22, 23, 24])
    batches = BatchOrder(rows=order)
    assert (batches.even_steps, batches.full_steps, batches.steps_per_epoch) == (1, 2, 3)
    steps = [[0, 1, 10, 11, 20, 21], [2, 12, 13, 14, 15, 16], [22, 23, 24]]
    assert [batches.ids(0, step, 1, 0, 1).tolist() for step in range(3)] == steps
    ranks = [[batches.ids(0, step, 1, rank, 3).tolist() for rank in range(3)] for step in (1, 2)]
    assert ranks == [[[2, 12], [13, 14], [15, 16]], [[22], [23], [24]]]
    assert BatchOrder(rows=order, last=Last.DROP).steps_per_epoch == 2
    padded = BatchOrder(rows=order, last=Last.PAD)
    assert padded.steps_per_epoch == 4
    assert padded.valid(3, 0, 1).tolist() == [False, False, True, False, False, False]
