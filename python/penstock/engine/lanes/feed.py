"""Runs what is below a lane stage by demand, feeds the stage, and holds what came out until it is taken."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, cast

import numpy as np

from penstock.batch.merge import gather
from penstock.core import kernels
from penstock.core.cancel import StoppedError
from penstock.core.errors import DataError, PlanError
from penstock.core.rows import new_rows
from penstock.core.spec import Columns, Field, Ids, Spec
from penstock.engine.lanes.stages import Fed, LaneStage, Made
from penstock.engine.lanes.states import BEGIN, Lane, Mark, Place, rows_given
from penstock.engine.read.parse import NamedRows
from penstock.engine.run import Run
from penstock.engine.stage import Columned, Item, Stage
from penstock.order.cursor import Work
from penstock.order.demand import Asked, DemandOrder
from penstock.order.keys import STAGE_KEY

#: A lane may be fed so many rows, and two epochs of its own, before one must come out; and never more than so many.
_PATIENCE_ROWS, _MOST_PATIENCE_ROWS = 10_000, 1_000_000

#: Runs what is below on a sequence of work, with one more stage behind it.
Start = Callable[[Iterator[Work], Stage], Run]

#: Allocates the array for one fixed column: (name, field, rows) -> array of shape (rows, *field.shape).
Allocate = Callable[[str, Field, int], Any]


@dataclass(frozen=True, eq=False)
class _Piece:
    """Rows that came out together: row i of them is row rows[i] of the columns."""

    columns: Columns
    rows: Ids


@dataclass(frozen=True, eq=False)
class _Left:
    """Rows of a lane that are fed again, before its next ones: `rows` of the columns and keys."""

    columns: Columns
    rows: Ids
    ids: Ids
    keys: Ids


@dataclass(kw_only=True)
class _Output(Item):
    """What came of an item."""

    made: Made


@dataclass(frozen=True, eq=False)
class _Stretch:
    """Rows [first, first + count) of a lane's output: they are rows begin, begin + 1, … of a piece."""

    first: int
    count: int
    piece: _Piece
    begin: int


class LaneFeed:
    """One lane stage on one rank. Rows are taken in order, from one thread; states may be asked for by another.

    first_id: of its rows in the order above. place: names a row of the input by its id. mine: the lanes that this rank has rows of. together: how many rows are worth asking for at once.
    epoch_rows: rows of a lane in an epoch of the input, 0 where that has none. below: the lane stages that the input comes from.
    """

    def __init__(
        self,
        stage: LaneStage,
        order: DemandOrder,
        start: Start,
        *,
        first_id: int,
        place: Callable[[int], str],
        mine: Sequence[int],
        together: int,
        seed: int,
        cpus: int,
        epoch_rows: int = 0,
        below: Sequence[LaneFeed] = (),
    ) -> None:
        self._stage, self._order, self._start = stage, order, start
        self.first_id, self._place, self._mine, self._together = first_id, place, list(mine), together
        self._seed, self._cpus, self._epoch_rows, self.below = seed, cpus, epoch_rows, tuple(below)
        self._lock = threading.RLock()
        self._run: Run | None = None
        self._is_closed = False
        self.spec: Spec = {}
        self.begin({})

    # Where it stands

    def begin(self, places: Mapping[int, Place], row: Ids | None = None) -> None:
        """Goes on at a place in every lane, the first one where none is given, with the rows numbered `row` of its output; what ran is over."""
        self.close()
        lanes = self._order.lanes
        row = np.zeros(lanes, dtype=np.int64) if row is None else row
        self._lanes = [Lane() for _ in range(lanes)]
        self._held: list[deque[_Stretch]] = [deque() for _ in range(lanes)]
        self._left: dict[int, _Left] = {}
        self._states = [places.get(lane, BEGIN)[2] for lane in range(lanes)]
        self._total_fed = self._total_made = 0
        for lane, one in enumerate(self._lanes):
            one.begin(int(row[lane]), places.get(lane, BEGIN))
        given = rows_given(self._order.rows, 0, np.array([one.issued for one in self._lanes], dtype=np.int64))
        for number, feed in enumerate(self.below):
            inner = {lane: place[3][number] for lane, place in places.items() if number < len(place[3])}
            feed.begin(inner, given[feed.first_id])
        self._is_closed = False

    def place(self, lane: int, row: int) -> Place:
        """How to go on with an output row of a lane."""
        with self._lock:
            mark = self._lanes[lane].mark_at(row)
            below = [feed.place(lane, at) for feed, at in self._below(lane, mark.row)]
            return [mark.row, row - mark.first + mark.left_out, mark.state, below]

    def forget_before(self, lane: int, row: int) -> None:
        """Nobody asks any more for the place of an output row before this one."""
        with self._lock:
            mark = self._lanes[lane].forget_before(row)
            for feed, at in self._below(lane, mark.row):
                feed.forget_before(lane, at)

    def _below(self, lane: int, row: int) -> list[tuple[LaneFeed, int]]:
        """The lane stages below, and the rows of a lane that they had given before a row of the input."""
        if not self.below:
            return []
        given = rows_given(self._order.rows, 0, np.full(self._order.lanes, row, dtype=np.int64))
        return [(feed, int(given[feed.first_id][lane])) for feed in self.below]

    # Rows

    def take(self, lane: Ids, row: Ids, allocate: Allocate) -> Columns:
        """Columns of rows of lanes, which come no earlier than what was taken before."""
        wanted = np.full(self._order.lanes, -1, dtype=np.int64)
        np.maximum.at(wanted, lane, row)
        asked = np.flatnonzero(wanted >= 0).tolist()
        for one in asked:
            while self._lanes[one].made <= wanted[one]:
                self._feed_next()
        pieces: dict[int, _Piece] = {}
        which, at = np.empty(len(row), dtype=np.int64), np.empty(len(row), dtype=np.int64)
        turn = np.argsort(lane, kind="stable")
        edges = np.searchsorted(lane[turn], [*asked, self._order.lanes])
        for number, one in enumerate(asked):
            mine = turn[edges[number] : edges[number + 1]]
            for run in self._held[one]:
                inside = mine[(row[mine] >= run.first) & (row[mine] < run.first + run.count)]
                if len(inside):
                    pieces.setdefault(id(run.piece), run.piece)
                    which[inside] = list(pieces).index(id(run.piece))
                    at[inside] = run.piece.rows[run.begin + row[inside] - run.first]
            while self._held[one] and self._held[one][0].first + self._held[one][0].count <= wanted[one] + 1:
                self._held[one].popleft()
        parts = list(pieces.values())
        return self._gathered([part.columns for part in parts], which, at, self.spec, allocate)

    def _feed_next(self) -> None:
        """Takes note of what comes of the next item of what is below."""
        with self._lock:
            if self._is_closed:
                raise StoppedError
            if self._run is None:
                stage = Stage(self._stage.name, "python", self._make)
                self._run = self._start(self._works(), stage)
            run = self._run
        item = cast("_Output", next(run))
        with self._lock:
            self._keep(self._order.asked.pop(item.step), item.made)

    def _make(self, item: Columned) -> _Output:
        """What comes of an item; items come in order, in one thread."""
        fed = self._fed(item, self._order.asked[item.step])
        with NamedRows(self._place, fed.ids):
            made = self._stage.feed(fed)
        edges = fed.edges.tolist()
        for number, lane in enumerate(self._order.asked[item.step].lane.tolist()):
            self._states[lane] = made.states[number]
            if (first := edges[number] + int(made.used[number])) < edges[number + 1]:
                self._left[lane] = _Left(fed.columns, np.arange(first, edges[number + 1]), fed.ids, fed.keys)
        return item.to(_Output, made=made)

    def _fed(self, item: Columned, asked: Asked) -> Fed:
        """An item's rows by lane, each after what is left of those before it."""
        (part,) = item.parts
        lanes = asked.lane.tolist()
        columns, counts, ids, keys = part.columns, asked.count, item.ids_of(part), item.keys_of(part)
        left = [self._left.pop(lane, None) for lane in lanes]
        if some := [one for one in left if one is not None]:
            counts = counts + np.array([0 if one is None else len(one.rows) for one in left])
            rows = np.split(np.arange(len(keys)), asked.edges[1:-1])
            pairs = [
                (1 + some.index(one), one.rows) if one else (0, new[:0]) for one, new in zip(left, rows, strict=True)
            ]
            turn = [pair for old, new in zip(pairs, rows, strict=True) for pair in (old, (0, new))]
            which = np.concatenate([np.full(len(rows), number) for number, rows in turn])
            row = np.concatenate([rows for _, rows in turn])
            tables = [columns, *(one.columns for one in some)]
            columns = self._gathered(tables, which, row, part.spec, new_rows)
            first = np.cumsum([0, len(keys), *(len(one.keys) for one in some)])
            ids = np.concatenate([ids, *(one.ids for one in some)])[first[which] + row]
            keys = np.concatenate([keys, *(one.keys for one in some)])[first[which] + row]
        states = [self._states[lane] for lane in lanes]
        key = kernels.mix([self._seed, STAGE_KEY])
        return Fed(columns=columns, spec=part.spec, counts=counts, ids=ids, keys=keys, key=key, states=states)

    def _gathered(self, tables: Sequence[Columns], which: Ids, row: Ids, spec: Spec, allocate: Allocate) -> Columns:
        """Columns whose row i is row `row[i]` of `tables[which[i]]`."""
        return {
            name: gather([table[name] for table in tables], which, row, name, field, allocate, threads=self._cpus)
            for name, field in spec.items()
        }

    def _keep(self, asked: Asked, made: Made) -> None:
        if len(made.rows):
            if self.spec and made.spec != self.spec:
                raise PlanError(
                    f"{self._stage.name}: gave {_shown(made.spec)}, after {_shown(self.spec)}; the same columns must come of all rows"
                )
            self.spec = made.spec
        piece, begin = _Piece(made.columns, made.rows), 0
        for number, lane in enumerate(asked.lane.tolist()):
            one, rows, given = self._lanes[lane], int(asked.count[number]), int(made.counts[number])
            left_out, used = min(one.left_out, given), int(made.used[number])
            if kept := given - left_out:
                self._held[lane].append(_Stretch(one.made, kept, piece, begin + left_out))
            one.left_out -= left_out
            one.made += kept
            one.fed += used
            one.state = made.states[number]
            one.unlucky = 0 if given else one.unlucky + rows
            one.marks.append(Mark(one.made, one.fed, one.state, one.left_out))
            begin += given
            self._total_fed, self._total_made = self._total_fed + rows, self._total_made + given
            self._check_luck(lane, one)

    def _check_luck(self, lane: int, one: Lane) -> None:
        if one.unlucky < _PATIENCE_ROWS:
            return
        if one.unlucky >= min(_MOST_PATIENCE_ROWS, max(_PATIENCE_ROWS, 2 * self._epoch_rows)):
            raise DataError(
                f"{self._stage.name}: of the last {one.unlucky:,} rows of lane {lane} none came out, and of all {self._total_fed:,} rows so far "
                f"{self._total_made:,} did; look at what it does with a batch, and shuffle before it if such rows lie together"
            )

    # What to read next

    def _works(self) -> Iterator[Work]:
        for number in count():
            with self._lock:
                lane, rows = self._next_rows()
                some = [self._lanes[one] for one in lane.tolist()]
                first = np.array([one.issued for one in some], dtype=np.int64)
                for one, more in zip(some, rows.tolist(), strict=True):
                    one.issued += more
                next_row = np.array([one.issued for one in self._lanes], dtype=np.int64)
                lane, first, rows = self._in_groups(lane, first, rows)
                self._order.asked[number] = Asked(lane=lane, first=first, count=rows, next_row=next_row)
            yield Work(0, number, 1)

    def _next_rows(self) -> tuple[Ids, Ids]:
        """Lanes and how many rows to read of each, so that all have equally many rows that come out and are not taken."""
        some = [self._lanes[lane] for lane in self._mine]
        share = (self._total_made + 1) / (self._total_fed + 1)
        held = np.array([sum(run.count for run in self._held[lane]) for lane in self._mine])
        ahead = held + np.array([one.issued - one.fed for one in some]) * share
        group = self._stage.rows or 1
        wanted = (ahead.mean() - ahead) / share + self._together / len(some)
        groups = np.maximum(np.floor(wanted / group).astype(np.int64), 0)
        if not groups.any():
            groups[np.argsort(ahead)[: max(1, self._together // group)]] = 1
        most = max(1, 2 * self._together // group)
        if groups.sum() > most:
            groups = np.maximum(groups * most // groups.sum(), (ahead == ahead.min()))
        chosen = np.flatnonzero(groups)
        return np.array(self._mine)[chosen], groups[chosen] * group

    def _in_groups(self, lane: Ids, first: Ids, rows: Ids) -> tuple[Ids, Ids, Ids]:
        """The same rows in the groups that the stage takes."""
        group = self._stage.rows
        if group is None:
            return lane, first, rows
        number = rows // group
        at = np.arange(int(number.sum())) - np.repeat(np.cumsum(number) - number, number)
        return np.repeat(lane, number), np.repeat(first, number) + at * group, np.full(len(at), group)

    @property
    def name(self) -> str:
        """The stage's name, for figures."""
        return self._stage.name

    @property
    def run(self) -> Run | None:
        """What runs below and the stage itself; None if nothing runs."""
        return self._run

    def close(self) -> None:
        """Stops what runs below, and lets go of what came out; until `begin`, nothing can be taken."""
        with self._lock:
            self._is_closed = True
            run, self._run = self._run, None
        for feed in self.below:
            feed.close()
        if run is not None:
            run.close()
        self._order.asked.clear()
        self._left = {}
        self._held = [deque() for _ in range(self._order.lanes)]


def _shown(spec: Spec) -> str:
    return ", ".join(f"{name}: {field}" for name, field in spec.items()) or "nothing"
