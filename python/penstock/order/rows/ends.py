"""Orders of rows that lane stages give, in epochs that end where these do: which row comes when follows from where each lane ends, as far as that is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.order.protocol import RowOrder, Shape
from penstock.order.rows.concat import ConcatRows
from penstock.order.rows.lane_rows import LaneRows
from penstock.order.rows.mixed import Mixed
from penstock.order.rows.zipped import Zipped


def first_rows(lane_rows: Ids, rows_per_lane: int, count: int) -> Ids:
    """How many of an epoch's first rows are of each lane: steps take equal parts while all lanes have them, and then what is left, lane after lane."""
    even = min(int(lane_rows.min()) // rows_per_lane, count // (len(lane_rows) * rows_per_lane))
    taken = even * rows_per_lane
    is_even = bool((lane_rows >= taken + rows_per_lane).all())
    left = np.full_like(lane_rows, rows_per_lane) if is_even else lane_rows - taken
    return np.asarray(taken + np.clip(count - taken * len(lane_rows) - (np.cumsum(left) - left), 0, left))


class OfLanes(RowOrder):
    """See `protocol.RowOrder`: of what lane stages give, every row is a block of its own, which is done at once."""

    def blocks(self, epoch: int, ids: Ids) -> tuple[Ids, Ids, Ids]:
        """Every row is a block."""
        return ids, ids + 1, np.arange(len(ids))

    def until(self, epoch: int, lane: Ids, row: Ids, last: Ids) -> tuple[Ids, Ids]:
        """When blocks are done: at once."""
        return lane, row + 1

    def windows(self, epoch: int, ids: Ids, after: Ids) -> tuple[Ids, Ids, Ids]:
        """When rows are needed: nobody asks, since none of them is read."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class CutRows(OfLanes):
    """Rows [first, first + most) of an epoch; all from the first on for None."""

    input: RowOrder
    first: int = 0
    most: int | None = None

    @property
    def shape(self) -> Shape:
        """What the epochs have in common."""
        return self.input.shape

    @property
    def words(self) -> str:
        """Which rows come when."""
        return self.input.words

    @cached_property
    def begins(self) -> Ids:
        """The first row of each lane."""
        return first_rows(self.input.lane_rows(), self.shape.rows_per_lane, self.first)

    @cached_property
    def _rows(self) -> Ids:
        rows = self.input.lane_rows()
        end = rows if self.most is None else first_rows(rows, self.shape.rows_per_lane, self.first + self.most)
        return np.asarray(end - self.begins)

    def lane_rows(self) -> Ids:
        """How many rows each lane has."""
        return self._rows

    def ids(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """Ids of rows [first, first + count) of a lane."""
        return self.input.ids(epoch, lane, int(self.begins[lane]) + first, count)


@dataclass(frozen=True, kw_only=True)
class BesideRows(OfLanes):
    """Row i of a lane is row i of that lane of every input: the ids are the first one's, which the others' rows follow."""

    inputs: tuple[RowOrder, ...]

    @property
    def shape(self) -> Shape:
        """What the epochs have in common."""
        return self.inputs[0].shape

    @property
    def words(self) -> str:
        """Which rows come when."""
        return self.inputs[0].words

    def lane_rows(self) -> Ids:
        """How many rows each lane has: where inputs differ, which is an error at the end, as many as all of them have."""
        return np.asarray(np.minimum.reduce([one.lane_rows() for one in self.inputs]))

    def ids(self, epoch: int, lane: int, first: int, count: int) -> Ids:
        """Ids of rows [first, first + count) of a lane."""
        return self.inputs[0].ids(epoch, lane, first, count)


def below(rows: RowOrder) -> tuple[RowOrder, ...]:
    """What an order gets its rows from; nothing for a leaf."""
    if isinstance(rows, (CutRows, Zipped)):
        return (rows.input,)
    return rows.inputs if isinstance(rows, (BesideRows, ConcatRows, Mixed)) else ()


def parts_of(rows: RowOrder) -> Iterator[RowOrder]:
    """An order, and all that it is made of."""
    yield rows
    for one in below(rows):
        yield from parts_of(one)


def lanes_of(rows: RowOrder) -> tuple[LaneRows, ...]:
    """What lane stages give to an order, in turn."""
    if isinstance(rows, LaneRows):
        return (rows,)
    return tuple(leaf for one in below(rows) for leaf in lanes_of(one))


def with_ends(rows: RowOrder, ends: Ids) -> RowOrder:
    """The same order in an epoch in which lanes of each stage end there. ends: int64 (stages, lanes), `LANE_ROWS` where that is not known."""
    if isinstance(rows, LaneRows):
        return replace(rows, ends=ends[0])
    inputs, number = list[RowOrder](), 0
    for one in below(rows):
        inputs.append(with_ends(one, ends[number:]))
        number += len(lanes_of(one))
    if isinstance(rows, (CutRows, Zipped)):
        return replace(rows, input=inputs[0])
    return replace(rows, inputs=tuple(inputs))  # type: ignore[type-var]  # those that have several are dataclasses
