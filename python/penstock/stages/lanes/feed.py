"""Runs what is below a lane stage by demand, feeds the stage, and holds what came out until it is taken.

What is below is a whole pipeline, a `Run` with threads of its own. Its work is no steps, but rows of those lanes that are behind:

    the run above                            LaneFeed                            the run below
    a thread that plans    ── take(rows) ──► what is awaited
                                                │ want
                                                ▼
                                             Asking  ── Work(asked=rows of lanes) ──► plan, read, parse, …
                                                                                         │ Columned
    columns                ◄── take ──────── MadeRows ◄──── LaneItem ──────────────── Feeder: the stage itself
    a state, from any thread ── place ─────► LaneProgress: how far each lane is, and how to continue there

Nothing here has a thread of its own. Whoever takes rows draws items of the run below until all are there, so that the run above waits in `take` while
rows are made. The lock guards where lanes stand: `take`, the run's first stage that draws work, and states come from three threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import cast

import numpy as np

from penstock.batch.merge import Allocate
from penstock.core.cancel import StoppedError
from penstock.core.columns.spec import Columns, Ids, Spec
from penstock.core.errors import DataError, PenstockError, PlanError, ProcessError, StateError, StorageError
from penstock.order.rows.lane_rows import LaneRows
from penstock.order.rows.rows_given import rows_given
from penstock.order.steps.asked import AskedOfLanes
from penstock.order.steps.cursor import Work
from penstock.order.steps.demand import DemandOrder
from penstock.runtime.budget import Budget
from penstock.runtime.run import Run
from penstock.runtime.stage import LaneItem, Stage
from penstock.stages.lanes.asking import Asking
from penstock.stages.lanes.feeder import Feeder, asked_of
from penstock.stages.lanes.lane_ends import LaneEnds
from penstock.stages.lanes.made_rows import MadeRows
from penstock.stages.lanes.smaller_pieces import Again, is_single, smaller
from penstock.stages.lanes.stages import LaneStage
from penstock.stages.lanes.states import LanePlace, LaneProgress, checked_group

#: Runs what is below on a sequence of work, with one more stage behind it; what ends a wait for work.
Start = Callable[[Iterator[Work], Stage, Callable[[], None]], Run]


class LaneFeed:
    """One lane stage on one rank. Rows are taken in order, from one thread; states may be asked for by another.

    first_id: of its rows in the order above. place: names a row of the input by its id. mine: the lanes that this rank has rows of. together: how
    many rows to ask for at once: as soon as so many are wanted, and at most. most_bytes: of rows that are asked for at once, and of what comes of them. seed: of its own random numbers. budget: counts what came out, until it is
    taken. below: the lane stages that the input comes from. goes_back: whether its input can be read again.

    Where a piece fails, all before it is kept, and its rows are made again in smaller pieces, until a single group fails: then its lane ends there, and whoever
    awaits a row behind that gets the error. So how many steps come before an error does not depend on which rows were read together. If
    none fails that way, whoever awaits rows gets the error at once.

    Where `order` has ends, a run is of one epoch: see `ending_feed`.
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
        most_bytes: Callable[[], int],
        seed: int,
        budget: Budget,
        cpus: int,
        below: Sequence[LaneFeed] = (),
        goes_back: bool = True,
    ) -> None:
        self._stage, self.order, self._start = stage, order, start
        self.first_id, self._place, self._together = first_id, place, together
        self._mine = np.array(mine, dtype=np.int64)
        self._most_bytes, self._fed_rows, self._fed_bytes = most_bytes, 0, 0
        self._seed, self._cpus, self.below = seed, cpus, tuple(below)
        self._goes_back = goes_back
        self._lock, self._is_closed = threading.RLock(), False
        self._ended_by: BaseException | None = None
        self.run: Run | None = None  # what runs below and the stage itself; None if nothing runs
        self._made, self._budget = MadeRows(stage.name, budget.keep, threads=cpus), budget
        self.begin({})

    @property
    def name(self) -> str:
        """The stage's name, for figures."""
        return self._stage.name

    @property
    def is_choice(self) -> bool:
        """Whether what comes out are some of its rows."""
        return self._stage.is_choice

    @property
    def spec(self) -> Spec:
        """The columns that came."""
        return self._made.spec

    @property
    def groups(self) -> Ids | None:
        """How many rows of each lane the stage takes together: no more than an epoch of the lane has; None where each row is for itself."""
        if self._stage.rows is None:
            return None
        epoch = None if self.order.has_ends else self.epoch_rows  # where lanes end, their last group may be smaller
        most = np.full(self.order.lanes, self._stage.rows, dtype=np.int64)
        return most if epoch is None else np.minimum(most, epoch)

    @property
    def epoch_rows(self) -> Ids | None:
        """How many rows of each lane an epoch of the input has, or has at most; None where that is not known, or never ends."""
        if self.order.epoch_rows is not None:
            return self.order.epoch_rows
        if isinstance(self.order.rows, LaneRows) and (below := self.below[0]).is_choice:
            return below.epoch_rows
        return None

    # Where it stands

    def begin(
        self, places: Mapping[int, LanePlace], row: Ids | None = None, *, epoch: int = 0, ends: Ids | None = None
    ) -> None:
        """Begins at a place in every lane, the first one where none is given, with the rows numbered `row` of its output; stops what ran.

        epoch, ends: where lanes end, which epoch it is, and how many rows they are known to give in it (`LANE_ROWS` where that is not known).
        """
        self.close()
        lanes, groups = self.order.lanes, self.groups
        given = [places.get(lane) or _first_place(lane, groups, self._stage.rows) for lane in range(lanes)]
        issued = np.array([place.row for place in given], dtype=np.int64)
        taken = np.zeros(lanes, dtype=np.int64) if row is None else row.astype(np.int64)
        if self.order.has_ends:  # a lane that nobody had yet begins with its first row
            taken[[lane for lane in range(lanes) if lane not in places]] = 0
        known = self.order.epoch_rows if self.order.has_ends else None
        if known is not None and (issued > known).any():
            lane = int((issued - known).argmax())
            raise StateError(
                f"the state says that lane {lane} stands at row {issued[lane]:,}, and an epoch has {known[lane]:,}: it was changed, or saved by a Penstock whose epochs went on in one another with "
                f"on_error='skip'; begin the epoch anew, set_epoch({epoch})"
            )
        self._ends = LaneEnds(
            self._stage.name, epoch, np.zeros(lanes, dtype=bool) if known is None else issued >= known, ends
        )
        self._lanes = LaneProgress(taken, given)
        if groups is not None:
            most = cast("int", self._stage.rows)
            groups = np.array([checked_group(place.state, most) for place in given], dtype=np.int64)
        self._groups = groups
        self._begin_inputs(places, issued, epoch)
        self._of_rank = self._mine
        self._asking = Asking(
            self._lanes,
            self._mine,
            groups,
            ended=np.flatnonzero(self._ends.has_ended).tolist(),
            issued=issued,
            taken=taken,
            together=self._together,
            ends=self._input_ends,
        )
        if self._ends.has_ended.any():
            self._ends.note(np.flatnonzero(self._ends.has_ended), taken)
        self._is_closed = False

    @property
    def _input_ends(self) -> Ids | None:
        """How many rows each lane of its input has, as far as is known; None where lanes have no end."""
        if not self.order.has_ends:
            return None
        return self.order.epoch_rows

    def _given(self, row: Ids) -> list[Ids]:
        """How many rows each stage below gives before these rows of the input, one a lane."""
        found = rows_given(self.order.rows, 0, row)
        return [found[feed.first_id] for feed in self.below]

    def _begin_inputs(self, places: Mapping[int, LanePlace], issued: Ids, epoch: int) -> None:
        for number, (feed, row) in enumerate(zip(self.below, self._given(issued), strict=True)):
            inner = {lane: place.below[number] for lane, place in places.items() if number < len(place.below)}
            feed.begin(inner, row, epoch=epoch)

    def place(self, lane: int, row: int) -> LanePlace:
        """How to continue with an output row of a lane."""
        with self._lock:
            here = self._lanes.place(lane, row)
            if not self.below:
                return here
            given = self._given(np.full(self.order.lanes, here.row, dtype=np.int64))
            below = zip(self.below, given, strict=True)
            return here._replace(below=tuple(feed.place(lane, int(row[lane])) for feed, row in below))

    def forget_before(self, row: Ids) -> None:
        """Nobody asks any more for the places of output rows before these, one a lane."""
        with self._lock:
            self._lanes.forget_before(row)
            self._asking.forget_before(row)
            if self.below:
                for feed, given in zip(self.below, self._given(self._lanes.oldest), strict=True):
                    feed.forget_before(given)

    # Rows

    def take(self, lane: Ids, row: Ids, allocate: Allocate) -> Columns:
        """Columns of rows of lanes, which come no earlier than what was taken before; waits for what is below to make them."""
        # Lanes are used in order, so that what is wanted of one is a single number: the row after its last.
        wanted = self._asking.taken.copy()
        np.maximum.at(wanted, lane, row + 1)
        self._await(wanted)
        columns = self._made.take(lane, row, allocate)
        self._pass(wanted)
        return columns

    def _pass(self, row: Ids) -> None:
        with self._lock:
            self._asking.taken = row
            self._asking.look()
        self._made.forget_before(row)

    def _await(self, wanted: Ids) -> None:
        with self._lock:
            self._asking.want(wanted)
        try:
            for error in self._failed_behind[:1]:
                raise error
            while (lacking := np.flatnonzero(self._lanes.made < wanted)).size:
                for error in self._broken[:1]:
                    self._broken.clear()
                    raise error
                for one in lacking.tolist():
                    if one in self._failed:
                        raise self._failed.pop(one)
                for one in lacking[self._ends.has_ended[lacking]].tolist():
                    raise self._lacks(one)
                self._feed_next()
        except BaseException as error:
            # It cannot continue, and whoever asks next is not to wait: the run's first stage may be heard before this one.
            self._ended_by, self._is_closed = error, True
            raise

    def _why_closed(self) -> Exception:
        """For whoever asks for more: an error of its own, since notes say where each was heard."""
        error = self._ended_by
        return type(error)(*error.args) if isinstance(error, PenstockError) else StoppedError()

    def _lacks(self, lane: int) -> DataError:
        """A lane ended before a row that it was said to give."""
        return DataError(
            f"{self._stage.name}: lane {lane} ended after {self._lanes.made[lane]:,} rows; report this to the maintainers"
        )

    def _feed_next(self) -> None:
        """Takes note of what comes of the next item of what is below."""
        with self._lock:
            if self._is_closed:
                raise self._why_closed()
            if self.run is None:
                feeder = Feeder(self._stage, self._place, self._seed, self._lanes.states, threads=self._cpus)
                stage, asking = Stage(self._stage.name, "python", feeder), self._asking
                self.run = self._start(self._works(asking), stage, asking.close)
            run = self.run
        try:
            item = cast("LaneItem", next(run))  # without the lock, which the run's first stage needs to draw work
            with self._lock:
                self._keep(item)
        except BaseException as error:
            if not self._is_to_be_found(run, error):
                raise
            run.close()
            self._find(error)
            return
        with self._lock:
            self._asking.note(self._most_rows)
        if not self.order.has_ends:
            self._lanes.check_luck(self._stage.name, self.order.epoch_rows)
        if self._again is not None and self._asking.came == len(self._again.pieces):
            raise self._again.error

    def _works(self, asking: Asking) -> Iterator[Work]:
        """What the run below works on; its first stage waits here until somebody wants rows. asking: of this run, since a restart makes another one."""
        for number in count():
            asked = None
            while asked is None:
                asking.wait()
                with self._lock:
                    asked = asking.next_rows()
            asked = self._as_it_came(asking, asked)
            yield Work(self._ends.epoch, number, 1, asked, order=self._input_order)

    def _as_it_came(self, asking: Asking, asked: AskedOfLanes) -> AskedOfLanes:
        """What was asked for, as far as the input has it."""
        return asked

    @property
    def _input_order(self) -> DemandOrder | None:
        """Which rows of stages below the input has, where that follows from their ends."""
        return None

    @property
    def _most_rows(self) -> int:
        """How many rows may be asked for at once, by what those so far took."""
        return int(self._most_bytes() * self._fed_rows / self._fed_bytes) if self._fed_bytes else self._together[1]

    def _keep(self, item: LaneItem) -> None:
        """What came is there to be taken, and lanes are so much further."""
        asked, made = asked_of(item), item.made
        if item.share is not None and (rows := int(asked.count.sum())):
            self._fed_rows, self._fed_bytes = self._fed_rows + rows, self._fed_bytes + item.share.most_bytes
        self._made.check(made)
        first, left_out = self._lanes.made, self._lanes.left_out
        begin, given = self._lanes.feed(asked.lane, asked.count, made.used, made.counts, item.states, made.states)
        self._made.keep(made, first, self._lanes.made, begin + np.minimum(left_out, given))
        self._budget.warn_of_waiting(self._made.held_bytes, self.name, len(self._of_rank))
        if asked.is_last is not None:
            self._ends.note(asked.lane[asked.is_last], self._lanes.made)

    # After an error

    def _is_to_be_found(self, run: Run, error: BaseException) -> bool:
        """Whether it may be found in smaller pieces which row an error belongs to: not if nothing can be read, or somebody wants to leave here."""
        is_of_rows = run.has_failed or isinstance(error, PlanError)
        return (
            is_of_rows
            and self._goes_back
            and bool(self._asking.coming)
            and not isinstance(error, (StorageError, ProcessError, StoppedError))
        )

    def _find(self, error: BaseException) -> None:
        """The next piece failed: it is made again in smaller ones, or a lane ends here."""
        asked = self._asking.coming[0]
        if is_single(asked, self._groups):
            self._failed[int(asked.lane[0])], self._again = error, None
        else:
            self._again = Again(error, [*smaller(asked, self._lanes.fed, self._groups)])
        self._restart(self._asking.taken, self._asking.wanted)

    def go_back(self, row: Ids) -> None:
        """Makes again what follows these rows of its output, one a lane, which may have been taken; the places of those before stay known."""
        self.close()
        with self._lock:
            self._ends.go_back(row, self._lanes.made)
            self._lanes.go_back(row)
            self._is_closed = False
        self._restart(row, row)

    def _restart(self, taken: Ids, wanted: Ids) -> None:
        """Asks anew for what follows what is used up, in lanes that did not fail."""
        with self._lock:
            if self._is_closed:
                raise self._why_closed()
            self._asking.close()
            self.run = None
            self._asking = Asking(
                self._lanes,
                self._of_rank,
                self._groups,
                ended=[*self._failed, *np.flatnonzero(self._ends.has_ended).tolist()],
                issued=self._lanes.fed.copy(),
                taken=taken,
                together=self._together,
                again=() if self._again is None else self._again.pieces,
                ends=self._input_ends,
            )
            self._asking.want(wanted)
        for feed, given in zip(self.below, self._given(self._lanes.fed), strict=True):
            feed.go_back(given)

    def close(self) -> None:
        """Stops what runs below, and drops what came out; until `begin`, nothing can be taken."""
        with self._lock:
            self._is_closed, self._ended_by = True, None
            run, self.run = self.run, None
        if run is not None:
            self._asking.close()
        for feed in self.below:
            feed.close()
        if run is not None:
            run.close()
        self._failed, self._again = dict[int, BaseException](), cast("Again | None", None)
        self._broken = list[BaseException]()  # what `ensure` met
        self._failed_behind = list[BaseException]()  # the last row of an epoch
        self._made.clear()


def _first_place(lane: int, groups: Ids | None, rows: int | None) -> LanePlace:
    """Where a lane begins. Its state says how many rows are taken together, if they are not as many as the stage takes."""
    together = None if groups is None else int(groups[lane])
    return LanePlace(0, 0, None if together == rows else together)
