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
from penstock.core.errors import DataError, PlanError, ProcessError, StorageError
from penstock.core.rows import new_rows
from penstock.core.spec import Columns, Field, Ids, Spec
from penstock.order.batches import NEVER
from penstock.order.cursor import Work
from penstock.order.demand import Asked, DemandOrder
from penstock.order.keys import STAGE_KEY
from penstock.order.lane_rows import LaneRows
from penstock.runtime.run import Run
from penstock.runtime.stage import Columned, Item, Part, Stage
from penstock.stages.lanes.again import Again, is_single, smaller
from penstock.stages.lanes.asking import Asking
from penstock.stages.lanes.stages import Fed, LaneStage, Made
from penstock.stages.lanes.states import Lanes, Place, checked_group, rows_given
from penstock.stages.read.parse import NamedRows

#: A lane may be fed so many rows, and two epochs of its own, before one must come out; and never more than so many.
_PATIENCE_ROWS, _MOST_PATIENCE_ROWS = 10_000, 1_000_000

#: Of an item in which all rows are bad.
_NO_ROWS = Part((0, 0), np.empty(0, dtype=np.int64), {}, {})

#: Runs what is below on a sequence of work, with one more stage behind it.
Start = Callable[[Iterator[Work], Stage], Run]

#: Allocates the array for one fixed column: (name, field, rows) -> array of shape (rows, *field.shape).
Allocate = Callable[[str, Field, int], Any]


@dataclass(frozen=True, eq=False)
class _Left:
    """Rows of a lane that are fed again, before its next ones: `rows` of the columns, ids and keys."""

    columns: Columns
    rows: Ids
    ids: Ids
    keys: Ids


@dataclass(kw_only=True)
class _Output(Item):
    """What came of an item. states: of its groups, before their first rows."""

    made: Made
    states: Sequence[Any]


@dataclass(frozen=True, eq=False)
class _Piece:
    """Rows that came out together: of lane l, rows [first[l], end[l]) of its output are rows begin[l], begin[l] + 1, … of `rows`, which are rows of the columns."""

    columns: Columns
    rows: Ids
    first: Ids
    end: Ids
    begin: Ids

    def find(self, lane: Ids, row: Ids) -> tuple[Ids, Ids]:
        """Which of some rows of lanes it has, by their numbers, and the rows of its columns that they are."""
        mine = np.flatnonzero((row >= self.first[lane]) & (row < self.end[lane]))
        return mine, self.rows[(self.begin - self.first)[lane[mine]] + row[mine]]


class LaneFeed:
    """One lane stage on one rank. Rows are taken in order, from one thread; states may be asked for by another.

    first_id: of its rows in the order above. place: names a row of the input by its id. mine: the lanes that this rank has rows of. together: how
    many rows to ask for at once: as soon as so many are wanted, and at most. seed: of its own random numbers. keep: counts the bytes of what came out, until it is
    taken. below: the lane stages that the input comes from. goes_back: whether its input can be read again.

    Where a piece fails, all before it is kept, and its rows are made again in smaller pieces, until a single group fails: then its lane ends there, and whoever
    awaits a row behind that gets the error. So how many steps come before an error does not depend on which rows were read together. If
    none fails that way, whoever awaits rows gets the error at once.
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
        together: tuple[int, int],
        seed: int,
        keep: Callable[[Any, int], None],
        cpus: int,
        below: Sequence[LaneFeed] = (),
        goes_back: bool = True,
    ) -> None:
        self._stage, self._order, self._start, self._count_bytes = stage, order, start, keep
        self.first_id, self._place, self._together = first_id, place, together
        self._mine = np.array(mine, dtype=np.int64)
        self._seed, self._cpus, self.below = seed, cpus, tuple(below)
        self._goes_back = goes_back
        self._lock = threading.RLock()
        self._run: Run | None = None
        self._is_closed = False
        self.spec: Spec = {}
        self.begin({})

    # Where it stands

    def begin(self, places: Mapping[int, Place], row: Ids | None = None) -> None:
        """Goes on at a place in every lane, the first one where none is given, with the rows numbered `row` of its output; what ran is over."""
        self.close()
        lanes, groups = self._order.lanes, self.groups
        given = [places.get(lane) or _first_place(lane, groups, self._stage.rows) for lane in range(lanes)]
        issued = np.array([place[0] for place in given], dtype=np.int64)
        taken = np.zeros(lanes, dtype=np.int64) if row is None else row.astype(np.int64)
        self._lanes = Lanes(taken, given)
        self._states = [place[2] for place in given]
        if groups is not None:
            most = cast("int", self._stage.rows)
            groups = np.array([checked_group(state, most) for state in self._states], dtype=np.int64)
        self._groups = groups
        self._asking = Asking(self._lanes, self._mine, groups, issued=issued, taken=taken, together=self._together)
        self._left: dict[int, _Left] = {}
        self._pieces: deque[_Piece] = deque()
        self._noted, self._again, self._failed = 0, cast("Again | None", None), dict[int, BaseException]()
        below = rows_given(self._order.rows, 0, issued)
        for number, feed in enumerate(self.below):
            inner = {lane: place[3][number] for lane, place in places.items() if number < len(place[3])}
            feed.begin(inner, below[feed.first_id])
        self._is_closed = False

    @property
    def groups(self) -> Ids | None:
        """How many rows of each lane the stage takes together: no more than an epoch of the lane has; None where each row is for itself."""
        if self._stage.rows is None:
            return None
        epoch = self.epoch_rows
        most = np.full(self._order.lanes, self._stage.rows, dtype=np.int64)
        return most if epoch is None else np.minimum(most, epoch)

    @property
    def epoch_rows(self) -> Ids | None:
        """How many rows of each lane an epoch of the input has, or has at most; None where that is not known, or never ends."""
        if self._order.epoch_rows is not None:
            return self._order.epoch_rows
        if isinstance(self._order.rows, LaneRows) and (below := self.below[0]).is_choice:
            return below.epoch_rows
        return None

    def feed_singly(self) -> None:
        """From the first row on, as few rows together as may be, so that each place is that of a single row; slow."""
        self._together = (1, 1)
        for feed in self.below:
            feed.feed_singly()
        self.begin({})

    def place(self, lane: int, row: int) -> Place:
        """How to go on with an output row of a lane."""
        with self._lock:
            fed, used, state = self._lanes.place(lane, row)
            below = [feed.place(lane, at) for feed, at in self._below(lane, fed)]
            return [fed, used, state, below]

    def forget_before(self, row: Ids) -> None:
        """Nobody asks any more for the places of output rows before these, one a lane."""
        with self._lock:
            self._lanes.forget_before(row)
            self._asking.forget_before(row)
            if self.below:
                given = rows_given(self._order.rows, 0, self._lanes.oldest)
                for feed in self.below:
                    feed.forget_before(given[feed.first_id])

    def _below(self, lane: int, row: int) -> list[tuple[LaneFeed, int]]:
        """The lane stages below, and the rows of a lane that they had given before a row of the input."""
        if not self.below:
            return []
        given = rows_given(self._order.rows, 0, np.full(self._order.lanes, row, dtype=np.int64))
        return [(feed, int(given[feed.first_id][lane])) for feed in self.below]

    # Rows

    def take(self, lane: Ids, row: Ids, allocate: Allocate) -> Columns:
        """Columns of rows of lanes, which come no earlier than what was taken before."""
        wanted = self._asking.taken.copy()
        np.maximum.at(wanted, lane, row + 1)
        with self._lock:
            self._asking.want(wanted)
        try:
            while (lacking := np.flatnonzero(self._lanes.made < wanted)).size:
                for one in lacking.tolist():
                    if one in self._failed:
                        raise self._failed.pop(one)
                self._feed_next()
        except BaseException:
            self._is_closed = True  # it cannot go on, and the next one who asks is not to wait
            raise
        which, at = np.zeros(len(row), dtype=np.int64), np.zeros(len(row), dtype=np.int64)
        pieces, found = [*self._pieces], 0
        for number, piece in enumerate(pieces):
            mine, rows = piece.find(lane, row)
            which[mine], at[mine] = number, rows
            found += len(mine)
        if found != len(row):
            raise DataError(
                f"{self._stage.name}: {len(row) - found:,} rows that it gave are lost; report this to the maintainers"
            )
        columns = self._gathered([piece.columns for piece in pieces], which, at, self.spec, allocate)
        with self._lock:
            self._asking.taken = wanted
            self._asking.look()
        while self._pieces and (self._pieces[0].end <= wanted).all():
            self._pieces.popleft()
        return columns

    def _feed_next(self) -> None:
        """Takes note of what comes of the next item of what is below."""
        with self._lock:
            if self._is_closed:
                raise StoppedError
            if self._run is None:
                stage = Stage(self._stage.name, "python", self._make)
                self._run = self._start(self._works(self._asking), stage)
            run = self._run
        try:
            item = cast("_Output", next(run))
            asked = self._order.asked[item.step]
            with self._lock:
                self._keep(asked, item)
        except BaseException as error:
            if not self._is_to_be_found(run, error):
                raise
            run.close()
            self._find(error)
            return
        with self._lock:
            del self._order.asked[item.step]
            self._asking.note(asked)
            self._noted += 1
        self._check_luck()
        if self._again is not None and self._noted == len(self._again.pieces):
            raise self._again.error

    def _is_to_be_found(self, run: Run, error: BaseException) -> bool:
        """Whether it may be found in smaller pieces which row an error belongs to: not if nothing can be read, or somebody wants to leave here."""
        is_of_rows = run.has_failed or isinstance(error, PlanError)
        return (
            is_of_rows
            and self._goes_back
            and self._noted in self._order.asked
            and not isinstance(error, (StorageError, ProcessError, StoppedError))
        )

    def _find(self, error: BaseException) -> None:
        """The next piece failed: it is made again in smaller ones, or a lane ends here."""
        asked = self._order.asked[self._noted]
        if is_single(asked, self._groups):
            self._failed[int(asked.lane[0])], self._again = error, None
        else:
            self._again = Again(error, [*smaller(asked, self._lanes.fed, self._groups)])
        self._restart(self._asking.taken, self._asking.wanted)

    def go_back(self, row: Ids) -> None:
        """Goes on at these rows of its output, one a lane, which may have been taken; the places of those before stay known."""
        self.close()
        with self._lock:
            self._lanes.go_back(row)
            self._again, self._failed, self._is_closed = None, {}, False
        self._restart(row, row)

    def _restart(self, taken: Ids, wanted: Ids) -> None:
        """Asks anew for what follows what is used up, in lanes that did not fail."""
        with self._lock:
            if self._is_closed:
                raise StoppedError
            self._asking.close()
            self._order.asked.clear()
            self._run, self._noted, self._left, self._states = None, 0, {}, self._lanes.states
            self._asking = Asking(
                self._lanes,
                np.setdiff1d(self._mine, [*self._failed]),
                self._groups,
                issued=self._lanes.fed.copy(),
                taken=taken,
                together=self._together,
                again=() if self._again is None else self._again.pieces,
            )
            self._asking.want(wanted)
        below = rows_given(self._order.rows, 0, self._lanes.fed)
        for feed in self.below:
            feed.go_back(below[feed.first_id])

    def _make(self, item: Columned) -> _Output:
        """What comes of an item; items come in order, in one thread."""
        asked = self._order.asked[item.step]
        fed = self._fed(item, asked)
        with NamedRows(self._place, fed.ids):
            made = self._stage.feed(fed)
        for number in np.flatnonzero(made.used < fed.counts).tolist():
            first, end = fed.edges[number : number + 2].tolist()
            rows = np.arange(first + int(made.used[number]), end)
            self._left[int(asked.lane[number])] = _Left(fed.columns, rows, fed.ids, fed.keys)
        for lane, state in zip(asked.lane.tolist(), made.states, strict=True):
            self._states[lane] = state
        return item.to(_Output, made=made, states=fed.states)

    def _fed(self, item: Columned, asked: Asked) -> Fed:
        """An item's rows by lane, each after what is left of those before it."""
        part = item.parts[0] if item.parts else _NO_ROWS
        lanes = asked.lane.tolist()
        columns, counts, ids, keys = part.columns, asked.count, item.ids_of(part), item.keys_of(part)
        left = [self._left.pop(lane, None) for lane in lanes] if self._left else []
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
        return Fed(
            columns=columns,
            spec=part.spec,
            counts=counts,
            ids=ids,
            keys=keys,
            key=kernels.mix([self._seed, STAGE_KEY]),
            states=states,
            at=part.at,
        )

    def _gathered(self, tables: Sequence[Columns], which: Ids, row: Ids, spec: Spec, allocate: Allocate) -> Columns:
        """Columns whose row i is row `row[i]` of `tables[which[i]]`."""
        used, which = np.unique(which, return_inverse=True)
        tables = [tables[number] for number in used.tolist()]
        return {
            name: gather([table[name] for table in tables], which, row, name, field, allocate, threads=self._cpus)
            for name, field in spec.items()
        }

    def _keep(self, asked: Asked, item: _Output) -> None:
        made = item.made
        if len(made.rows):
            if self.spec and made.spec != self.spec:
                raise PlanError(
                    f"{self._stage.name}: gave {_shown(made.spec)}, after {_shown(self.spec)}; return the same columns for all rows"
                )
            self.spec = made.spec
        first, left_out = self._lanes.made, self._lanes.left_out
        begin, given = self._lanes.feed(asked.lane, asked.count, made.used, made.counts, item.states, made.states)
        if len(made.rows):
            begin = begin + np.minimum(left_out, given)
            piece = _Piece(made.columns, made.rows, first, self._lanes.made, begin)
            self._count_bytes(piece, sum(int(getattr(column, "nbytes", 0)) for column in made.columns.values()))
            self._pieces.append(piece)

    def _check_luck(self) -> None:
        lanes = self._lanes
        worst = int(lanes.unlucky.argmax())
        epoch_rows = 0 if self._order.epoch_rows is None else int(self._order.epoch_rows.max())
        most = min(_MOST_PATIENCE_ROWS, max(_PATIENCE_ROWS, 2 * epoch_rows))
        if lanes.unlucky[worst] >= most:
            raise DataError(
                f"{self._stage.name}: of the last {lanes.unlucky[worst]:,} rows of lane {worst} none came out, and of all {lanes.total_fed:,} rows so far "
                f"{lanes.total_made:,} did; look at what it does with a batch, and shuffle before it if such rows lie together"
            )

    # What to read next

    def _works(self, asking: Asking) -> Iterator[Work]:
        for number in count():
            asking.wait()
            with self._lock:
                lane, first, rows = asking.next_rows()
                next_row = np.full_like(asking.issued, NEVER)
                next_row[self._mine] = asking.issued[self._mine]
                self._order.asked[number] = Asked(lane=lane, first=first, count=rows, next_row=next_row)
            yield Work(0, number, 1)

    @property
    def name(self) -> str:
        """The stage's name, for figures."""
        return self._stage.name

    @property
    def order(self) -> DemandOrder:
        """Of its input."""
        return self._order

    @property
    def is_choice(self) -> bool:
        """Whether what comes out are some of its rows."""
        return self._stage.is_choice

    @property
    def run(self) -> Run | None:
        """What runs below and the stage itself; None if nothing runs."""
        return self._run

    def close(self) -> None:
        """Stops what runs below, and lets go of what came out; until `begin`, nothing can be taken."""
        with self._lock:
            self._is_closed = True
            run, self._run = self._run, None
        if run is not None:
            self._asking.close()
        for feed in self.below:
            feed.close()
        if run is not None:
            run.close()
        self._order.asked.clear()
        self._left, self._failed, self._again = {}, {}, None
        self._pieces = deque()


def _first_place(lane: int, groups: Ids | None, rows: int | None) -> Place:
    """Where a lane begins. Its state says how many rows are taken together, if they are not as many as the stage takes."""
    together = None if groups is None else int(groups[lane])
    return [0, 0, None if together == rows else together, []]


def _shown(spec: Spec) -> str:
    return ", ".join(f"{name}: {field}" for name, field in spec.items()) or "nothing"
