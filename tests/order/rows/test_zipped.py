"""Rows that follow others against a slow and obvious model: paired by their places, in blocks of their leaders."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.columns.picked_rows import RowNumbers
from penstock.order.protocol import RowOrder
from penstock.order.rows.chosen import Chosen, ChosenRows
from penstock.order.rows.natural import Natural
from penstock.order.rows.segments import Segments
from penstock.order.rows.shuffled import Shuffled
from penstock.order.rows.zipped import FollowedRows, Zipped
from support.tries import tries


@st.composite
def rows_of(draw: st.DrawFn, count: int) -> ChosenRows:
    """So many rows: runs with gaps between them, ascending numbers, or numbers in any order."""
    kind = draw(st.integers(0, 2))
    if kind:
        gaps = draw(st.lists(st.sampled_from([1, 1, 1, 2, 30]), min_size=count, max_size=count))
        ids = np.cumsum(gaps) - 1
        order = draw(st.permutations(range(count))) if kind == 2 else range(count)
        return Chosen(RowNumbers(ids[list(order)], int(ids.max()) + 1)).read_by(draw(st.integers(1, 12)), np.array([0]))
    runs, begin = [], 0
    while count:
        rows, distance = draw(st.integers(1, count)), draw(st.sampled_from([1, 1, 2, 5]))
        begin += draw(st.integers(0, 9))
        runs.append((begin, rows, distance))
        begin, count = begin + (rows - 1) * distance + 1, count - rows
    return Segments(tuple(runs))


def end_of(rows: ChosenRows) -> int:
    return int(rows.ids(np.arange(rows.rows)).max()) + 1


@st.composite
def zips(draw: st.DrawFn) -> Zipped:
    count = draw(st.integers(1, 60))
    leader, follower, third = (draw(rows_of(count)) for _ in range(3))
    edges = np.cumsum([0, *map(end_of, (leader, follower, third))]).tolist()
    ranges = [(edges[number], edges[number + 1]) for number in range(3)]
    second = FollowedRows(leader=follower, follower=third, leads=ranges[1], follows=ranges[2])
    if draw(st.booleans()):
        second = FollowedRows(leader=leader, follower=third, leads=ranges[0], follows=ranges[2])
    links = (FollowedRows(leader=leader, follower=follower, leads=ranges[0], follows=ranges[1]), second)
    return Zipped(input=draw(orders(leader)), links=links)


@st.composite
def orders(draw: st.DrawFn, leader: ChosenRows) -> RowOrder:
    """An order of all rows, of a slice of them, or of some that were picked."""
    chosen: ChosenRows = leader
    kind = draw(st.integers(0, 2))
    if kind == 1:
        first = draw(st.integers(0, leader.rows - 1))
        chosen = leader.sliced(first, draw(st.integers(1, leader.rows - first)))
    if kind == 2:
        picked = draw(st.lists(st.integers(0, leader.rows - 1), min_size=1, unique=True).map(sorted))
        chosen = Chosen.of(leader, RowNumbers(np.array(picked), leader.rows))
    wanted = draw(st.integers(1, 6))
    chosen = chosen.read_by(wanted, np.array([0]))
    sizes = {
        "lanes": draw(st.integers(1, 4)),
        "rows_per_lane": draw(st.integers(1, 3)),
        "wanted_rows": chosen.rows_together(wanted),
    }
    if draw(st.booleans()):
        return Natural(segments=chosen, **sizes)
    return Shuffled(segments=chosen, seed=draw(st.integers(0, 9)), window_blocks=draw(st.integers(1, 3)), **sizes)


@settings(max_examples=tries(1_500), deadline=None)
@given(zips(), st.integers(0, 1))
def test_followers_come_with_their_leaders(order: Zipped, epoch: int) -> None:
    lanes = [order.ids(epoch, lane, 0, rows) for lane, rows in enumerate(order.lane_rows().tolist())]
    ids = np.concatenate(lanes)
    lane = np.repeat(np.arange(len(lanes)), [len(some) for some in lanes])
    row = np.concatenate([np.arange(len(some)) for some in lanes])
    whole, at = order.with_followers(ids)
    assert at is not None
    assert at.tolist() == [*range(len(ids))] * 3
    first, second = order.links
    places = {number: place for place, number in enumerate(first.leader.ids(np.arange(first.leader.rows)).tolist())}
    paired = [places[number] for number in ids.tolist()]
    for link, some in zip((first, second), whole.reshape(3, -1)[1:], strict=True):
        assert (some - link.follows[0]).tolist() == link.follower.ids(np.array(paired)).tolist()
        windows = order.windows(epoch, some, np.zeros(order.shape.lanes, dtype=np.int64))
        leaders = order.windows(epoch, ids, np.zeros(order.shape.lanes, dtype=np.int64))
        assert [part.tolist() for part in windows] == [part.tolist() for part in leaders]
        _check_blocks(order, epoch, some, link, lane, row)
    assert second.follows[1] > second.follows[0]
    nowhere = np.setdiff1d(np.arange(*second.follows), whole)
    is_chosen = np.isin(nowhere - second.follows[0], second.follower.ids(np.arange(second.follower.rows)))
    if isinstance(second.follower, Segments):
        _, begin, end = order.windows(epoch, nowhere[~is_chosen], np.zeros(order.shape.lanes, dtype=np.int64))
        assert (begin == end).all(), "what no row takes is never needed"


def _check_blocks(
    order: Zipped, epoch: int, ids: np.ndarray, link: FollowedRows, lane: np.ndarray, row: np.ndarray
) -> None:
    """Every row lies in one block, which stays open until its last row came."""
    first, end, which = order.blocks(epoch, ids)
    assert len({*first.tolist()}) == len(first)
    assert ((ids >= first[which]) & (ids < end[which])).all()
    turn = np.argsort(first)
    assert (end[turn][:-1] <= first[turn][1:]).all(), "blocks overlap"
    assert (first >= link.follows[0]).all()
    assert (end <= link.follows[1]).all()
    done_lane, done_row = order.until(epoch, lane, row, end[which] - 1)
    for mine in range(len(first)):
        rows = np.flatnonzero(which == mine)
        if end[mine] - first[mine] == 1:
            continue
        assert {*done_lane[rows].tolist()} in ({-1}, {*lane[rows].tolist()})
        assert done_row[rows].min() > row[rows].max() or -1 in done_lane[rows], "a block is done before its last row"
