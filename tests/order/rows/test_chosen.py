"""Any ids, in any order, with repeats: against slow and obvious models, below every order."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.columns.picked_rows import RowNumbers
from penstock.core.columns.spec import Ids
from penstock.order.protocol import RowOrder
from penstock.order.rows.chosen import Chosen, joined
from penstock.order.rows.concat import ConcatRows
from penstock.order.rows.mixed import Mixed, Stop
from penstock.order.rows.natural import Natural
from penstock.order.rows.repeat import RepeatedRows
from penstock.order.rows.segments import Segments
from penstock.order.rows.shuffled import Shuffled
from penstock.order.rows.slice import Slice
from penstock.order.steps.batches import BatchOrder
from support.tries import tries

ASCENDING = st.lists(st.sampled_from([1, 1, 1, 2, 3, 40]), min_size=1, max_size=70).map(np.cumsum)
UNIQUE = st.permutations(range(40)).flatmap(lambda turn: st.integers(1, 40).map(lambda count: np.array(turn[:count])))
REPEATED = st.lists(st.integers(0, 25), min_size=1, max_size=70).map(np.array)
NO_EDGES = np.zeros(1, dtype=np.int64)
IDS = st.one_of(ASCENDING, UNIQUE, REPEATED)


def chosen(ids: Ids, first_id: int = 0) -> Chosen:
    return Chosen(RowNumbers(ids, int(ids.max()) + 1), first_id)


@given(IDS, st.integers(0, 9), st.integers(0, 60), st.integers(1, 60))
def test_it_is_the_list_of_its_ids(ids: Ids, first_id: int, first: int, count: int) -> None:
    some, known = chosen(ids, first_id), (ids + first_id).tolist()
    assert some.ids(np.arange(some.rows)).tolist() == known
    every = np.arange(-2, max(known) + 3)
    assert some.places(every).tolist() == [known.index(one) if one in known else -1 for one in every.tolist()]
    owner, place = some.every_place(every)
    assert [*zip(every[owner].tolist(), place.tolist(), strict=True)] == sorted(
        (one, at) for at, one in enumerate(known)
    )
    assert some.repeats == (len(set(known)) < len(known))
    assert some.picked.copies.tolist() == [known[:at].count(one) for at, one in enumerate(known)]
    cut, thinned = some.sliced(first, count), some.every(count)
    assert cut.ids(np.arange(cut.rows)).tolist() == known[first : first + count]
    assert thinned.ids(np.arange(thinned.rows)).tolist() == known[::count]
    both = joined([some, Segments(((3, 4, 2),))])
    assert both.ids(np.arange(both.rows)).tolist() == [*known, 3, 5, 7, 9]
    again = Chosen.of(some, RowNumbers(np.arange(some.rows)[::-1], some.rows))
    assert again.ids(np.arange(some.rows)).tolist() == known[::-1]


@given(ASCENDING, st.integers(2, 30), st.integers(0, 9), st.lists(st.integers(0, 100), max_size=3))
def test_neighbours_are_read_together(ids: Ids, block_rows: int, first_id: int, sources: list[int]) -> None:
    """Those of one source."""
    some = chosen(ids, first_id).read_by(block_rows, np.array(sources, dtype=np.int64))
    if not some.has_neighbours:
        assert some.rows_together(block_rows) == some.rows_read(block_rows) == 1
        return
    for begin, end in zip(some.edges[:-1].tolist(), some.edges[1:].tolist(), strict=True):
        assert (np.diff(ids[begin:end]) <= block_rows // 4).all()
        assert len({*np.searchsorted(np.sort(sources), ids[begin:end] + first_id, side="right").tolist()}) == 1
    assert 1 <= some.rows_together(block_rows) <= block_rows


def test_sparse_rows_are_read_in_blocks_of_as_many_bytes() -> None:
    """Of every tenth row a tenth of a block; what lies far apart, each by itself."""
    assert chosen(np.arange(0, 10_000, 10)).read_by(1000, NO_EDGES).rows_together(1000) == 100
    assert chosen(np.arange(1000)).read_by(64, NO_EDGES).rows_together(64) == 64
    assert chosen(np.arange(0, 10**6, 1000)).read_by(64, NO_EDGES).rows_together(64) == 1
    assert chosen(np.array([5, 5, 6])).read_by(64, NO_EDGES).rows_together(64) == 1


@st.composite
def orders(draw: st.DrawFn, ids: st.SearchStrategy[Ids] = IDS) -> RowOrder:
    lanes, rows_per_lane = draw(st.integers(1, 4)), draw(st.integers(1, 4))

    def one(first_id: int, *, shuffled: bool) -> Natural:
        block_rows = draw(st.sampled_from([1, 2, 5, 8]))
        segments = chosen(draw(ids), first_id).read_by(block_rows, NO_EDGES)
        sizes = {"segments": segments, "lanes": lanes, "rows_per_lane": rows_per_lane}
        sizes["wanted_rows"] = segments.rows_together(block_rows)
        if not shuffled:
            return Natural(**sizes)
        return Shuffled(**sizes, window_blocks=draw(st.integers(1, 3)), seed=draw(st.integers(0, 9)))

    kind = draw(st.sampled_from(["natural", "shuffled", "slice", "repeat", "concat", "mixed"]))
    made: RowOrder = one(draw(st.integers(0, 5)), shuffled=kind != "natural")
    if kind == "slice":
        rows = int(made.lane_rows().sum())
        first = draw(st.integers(0, rows - 1))
        return Slice(input=made, first=first, count=draw(st.integers(1, rows - first)))
    if kind == "repeat":
        return RepeatedRows(input=made, times=draw(st.integers(1, 3)))
    if kind in ("concat", "mixed"):
        both, first_ids = (made, one(5000, shuffled=True)), (0, 5000)
        if kind == "concat" or not min(part.lane_rows().min() for part in both):
            return ConcatRows(inputs=both, first_ids=first_ids)
        stop = draw(st.sampled_from([Stop.FIRST, Stop.ALL]))
        mixed = Mixed(inputs=both, first_ids=first_ids, quotas=((0, (draw(st.integers(1, 3)), 1)),), stop=stop)
        return mixed if mixed.lane_rows().min() else made
    return made


def lanes_of(order: RowOrder, epoch: int) -> list[Ids]:
    return [order.ids(epoch, lane, 0, rows) for lane, rows in enumerate(order.lane_rows().tolist())]


@settings(max_examples=tries(1_000), deadline=None)
@given(orders(), st.integers(0, 2))
def test_rows_lie_in_their_blocks(order: RowOrder, epoch: int) -> None:
    ids = np.concatenate(lanes_of(order, epoch))
    first, end, which = order.blocks(epoch, ids)
    assert len(first) == len(set(first.tolist()))
    assert ((ids >= first[which]) & (ids < end[which])).all()


@settings(max_examples=tries(1_000), deadline=None)
@given(orders(ASCENDING), st.integers(0, 2))
def test_a_block_ends_with_a_row_and_says_when_it_is_done(order: RowOrder, epoch: int) -> None:
    """And is not done before the last of its rows, of those in the same lane."""
    for lane, ids in enumerate(lanes_of(order, epoch)):
        if not len(ids):
            continue
        first, end, which = order.blocks(epoch, ids)
        assert np.isin(end - 1, np.concatenate(lanes_of(order, epoch))).all() or isinstance(order, Slice | Mixed)
        rows = np.arange(len(ids))
        of, until = order.until(epoch, np.full(len(ids), lane), rows, (end - 1)[which])
        assert ((of == lane) | (of == -1)).all()
        assert (until > rows).all()
        assert len(first) <= len(ids)


@settings(max_examples=tries(1_000), deadline=None)
@given(orders(), st.integers(0, 2), st.integers(0, 9), st.randoms(use_true_random=False))
def test_the_forecast_finds_the_next_copy(order: RowOrder, epoch: int, step: int, random: object) -> None:
    """Where rows are read one by one: the step in which some lanes need each. Where lanes of inputs begin at other rows, a few rows off."""
    if order.shape.block_rows != 1:
        return
    batches = BatchOrder(rows=order)
    low = random.randrange(batches.lanes)  # type: ignore[attr-defined]
    high = random.randrange(low, batches.lanes) + 1  # type: ignore[attr-defined]
    if isinstance(order, RepeatedRows | Mixed):  # of which a copy in another lane may hide one in these
        low, high = 0, batches.lanes
    share = (low * batches.rows_per_lane, high * batches.rows_per_lane)
    coming: dict[int, int] = {}
    for later in range(batches.even_steps - 1, step - 1, -1):
        coming |= dict.fromkeys(batches.ids(epoch, later, 1, 0, 1)[slice(*share)].tolist(), later)
    ids = np.unique(np.concatenate(lanes_of(order, epoch)))
    found = batches.next_uses(epoch, share, ids, step)
    is_natural = isinstance(order, Natural) and not isinstance(order, Shuffled)
    for one, when in zip(ids.tolist(), found.tolist(), strict=True):
        if is_natural and one not in coming:
            continue  # blocks of the natural order belong to all
        if when < batches.even_steps:
            off = 0 if isinstance(order, Natural | RepeatedRows) else 4
            assert is_natural or (abs(when - coming[one]) <= off if one in coming else when < step), one


@settings(max_examples=tries(500), deadline=None)
@given(orders(REPEATED), st.integers(0, 2))
def test_copies_have_draws_of_their_own(order: RowOrder, epoch: int) -> None:
    """In an epoch, and in all of them."""
    if not order.has_draws:
        return
    found: Counter[tuple[int, int]] = Counter()
    repeated = isinstance(order, Mixed)
    for one in (epoch, epoch + 1):
        for lane, rows in enumerate(order.lane_rows().tolist()):
            ids, draws = order.ids(one, lane, 0, rows), order.draws(one, lane, 0, rows)
            found.update(zip(ids.tolist(), draws.tolist(), strict=True))
    assert repeated or max(found.values()) == 1


@pytest.mark.parametrize("count", [10_000_000])
def test_ten_million_rows_take_four_bytes_each(count: int) -> None:
    some = RowNumbers(np.arange(0, 2 * count, 2), 2 * count)
    assert some.numbers.nbytes == 4 * count
    assert some.ascends
    assert len(some.edges(2)) == 2
