"""Runs of a loader's stages in an actor: each makes steps in the order in which they are asked for, several ahead."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.columns.spec import Field
from penstock.core.errors import DataError
from penstock.dataset import Dataset
from penstock.deliver.numpy import ToNumpy
from penstock.loader.child.messages import MadeItem, SentColumn
from penstock.loader.options import LoaderOptions
from penstock.loader.share import RankShare, share_of
from penstock.observe.bad_samples import BadSamples, OnError
from penstock.observe.quarantine import BadSample
from penstock.order.steps.cursor import Work
from penstock.processes.link import sendable
from penstock.ray.messages import MadeSteps, Wanted
from penstock.runtime.run import Run
from penstock.runtime.stage import Delivered
from penstock.runtime.tune import Depth

#: Streams at a time: of ranks, and of trainings that stand elsewhere. Whichever was asked least lately makes room.
_MOST = 8
#: Items that a stream may go back or ahead: what it reads lies in windows of neighbouring steps.
_NEAR = 64
#: Seconds after which a stream that nobody asks lets its windows go.
_IDLE_S = 60.0
#: How often a run that waits for work looks whether it has failed.
_LOOK_S = 0.1


class _Notes(BadSamples):
    """Bad samples of steps that are not sent yet."""

    def __init__(self, on_error: OnError) -> None:
        super().__init__(on_error, sys.maxsize, None)
        self._notes: list[BadSample] = []

    def note(self, sample: BadSample, error: DataError, rank: int) -> None:
        """See `BadSamples`; how many there may be, the trainer's loader knows."""
        with self._lock:
            self._notes.append(sample)

    def of(self, work: Work) -> list[BadSample]:
        """Those of some steps, which are forgotten."""
        with self._lock:
            mine = [
                one
                for one in self._notes
                if one.epoch == work.epoch and one.step in range(work.step, work.step + work.steps)
            ]
            self._notes = [one for one in self._notes if one not in mine]
        return mine


class _ToTrainer(ToNumpy):
    """Delivers columns as they are, with their fields: the trainer's loader makes the framework's types of them."""

    def convert(self, column: Any, field: Field) -> SentColumn:
        """One column of an item, in a worker thread."""
        return SentColumn(column, field)


class Streams:
    """The streams of an actor. Work goes to the one that is near it, so that trainings that go side by side read together."""

    def __init__(self, dataset: Dataset, options: LoaderOptions) -> None:
        self._dataset, self._options = dataset, options
        self._streams: list[_Stream] = []
        self._lock = threading.Lock()

    def make(self, wanted: Wanted, work: Work) -> Future[MadeSteps]:
        """Has steps made."""
        with self._lock:
            stream = self._near(wanted, work)
            ended = [other for other in self._streams if other is not stream and other.is_idle]
            ended += sorted(self._streams, key=lambda other: other.asked_at)[: max(0, len(self._streams) - _MOST)]
            self._streams = [other for other in self._streams if other not in ended]
            made = stream.make(work)
        for other in ended:
            other.end()
        return made

    def _near(self, wanted: Wanted, work: Work) -> _Stream:
        mine = [stream for stream in self._streams if stream.wanted == wanted]
        stream = min(mine, key=lambda stream: stream.distance(work), default=None)
        if stream is None or stream.distance(work) > _NEAR:
            stream = _Stream(wanted, _share(self._dataset, self._options, wanted))
            self._streams.append(stream)
        return stream


def _share(dataset: Dataset, options: LoaderOptions, wanted: Wanted) -> tuple[RankShare, _Notes]:
    notes = _Notes(options.on_error)
    share = share_of(
        dataset,
        wanted.ranks,
        equal_parts=wanted.equal_parts,
        changed=wanted.changed,
        options=options,
        deliver=_ToTrainer(),
        bad_samples=notes,
    )
    return share, notes


def made_once(dataset: Dataset, options: LoaderOptions, wanted: Wanted, work: Work) -> dict[str, SentColumn]:
    """The columns of some steps, made at once in the calling thread, as an actor makes them."""
    lowered = _share(dataset, options, wanted)[0].lowered
    made: Any = work
    try:
        for stage in lowered.stages:
            made = stage.work(made)
    finally:
        lowered.workers.close()
    return dict(made.columns)


@dataclass(eq=False)
class _Asked:
    """Steps that were asked for, and what becomes of them."""

    work: Work
    made: Future[MadeSteps]


@dataclass(eq=False)
class _Feed:
    """What one run was given: begun, in its order. is_stopped: whether it is given nothing more."""

    run: Run | None = None
    begun: deque[_Asked] = field(default_factory=deque)
    is_stopped: bool = False

    @property
    def is_over(self) -> bool:
        """Whether nobody takes what it makes any more."""
        return self.is_stopped or (self.run is not None and self.run.has_failed)


class _Stream:
    """A run of the stages on the work of all calls. An error ends the run, and the others of its work go to the next one."""

    def __init__(self, wanted: Wanted, made_by: tuple[RankShare, _Notes]) -> None:
        self.wanted = wanted
        self._share, self._notes = made_by
        self._waiting: deque[_Asked] = deque()  # for a run
        self._feed = _Feed()
        self._changed = threading.Condition()
        self._last = 0
        self._is_ended = False
        self.asked_at = time.monotonic()
        threading.Thread(target=self._take, name="penstock-ray", daemon=True).start()

    def distance(self, work: Work) -> float:
        """How many items lie between the last one that was asked for and this one."""
        return abs(self.wanted.at(work) - self._last) / work.steps

    @property
    def is_idle(self) -> bool:
        """Whether it may end: nobody asked for long, and nothing is under way."""
        with self._changed:
            return not (self._waiting or self._feed.begun) and time.monotonic() - self.asked_at > _IDLE_S

    def make(self, work: Work) -> Future[MadeSteps]:
        """Has steps made behind those before."""
        asked = _Asked(work, Future())
        with self._changed:
            self._last, self.asked_at = self.wanted.at(work), time.monotonic()
            self._waiting.append(asked)
            self._changed.notify_all()
        return asked.made

    def end(self) -> None:
        """Nothing more is asked for; what was is made."""
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()

    def _works(self, feed: _Feed) -> Iterator[Work]:
        """The work of one run, as it is asked for; ends at once where the run has failed, which waits for it."""
        while True:
            with self._changed:
                while not feed.is_over and not self._waiting and not self._is_ended:
                    self._changed.wait(timeout=_LOOK_S)
                if feed.is_over or not self._waiting:
                    return
                asked = self._waiting.popleft()
                feed.begun.append(asked)
            yield asked.work

    def _take(self) -> None:
        lowered = self._share.lowered
        while not self._is_ended or self._waiting:
            feed = self._feed = _Feed()
            works = lowered.budget.follow(self._works(feed))
            try:
                feed.run = Run(lowered.stages, works, Depth(out=2, between=2, most=8), lowered.budget, lowered.tuner)
                for item in feed.run:
                    self._done(feed, item)  # type: ignore[arg-type]  # the last stage delivers
                    del item
            except BaseException as error:
                self._failed(error, feed)
            if feed.run is not None:
                feed.run.close()
        lowered.workers.close()
        for slots in lowered.slots:
            slots.clear()

    def _failed(self, error: BaseException, feed: _Feed) -> None:
        """The steps at the front failed; what the run had begun behind them goes to the next one, in its order."""
        with self._changed:
            feed.is_stopped = True
            front = feed.begun or self._waiting
            asked = front.popleft() if front else None
            self._waiting.extendleft(reversed(feed.begun))
            feed.begun.clear()
            self._changed.notify_all()
        if asked is not None:
            asked.made.set_exception(error)

    def _done(self, feed: _Feed, item: Delivered) -> None:
        with self._changed:
            asked = feed.begun.popleft()
        assert asked.work == item.work  # a run keeps the order of its work
        made = MadeItem(
            number=0,
            work=item.work,
            rows_per_step=item.rows_per_step,
            columns={name: _compact(column) for name, column in item.columns.items()},
            ids=None,
            draws=None,
            places=[],
        )
        asked.made.set_result(MadeSteps(made, self._notes.of(item.work)))


def _compact(column: SentColumn) -> SentColumn:
    if not isinstance(column.values, (np.ndarray, pa.Array)):
        return column
    return SentColumn(sendable({"": column.values})[""], column.field)
