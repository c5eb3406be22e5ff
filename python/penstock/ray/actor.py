"""What runs in an actor of Ray: it makes the steps that it is asked for, several ahead, by the stages of a loader."""

from __future__ import annotations

import os
import platform
import sys
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import ray

from penstock.core.columns.spec import Field
from penstock.core.errors import DataError
from penstock.core.kernels import native_version
from penstock.deliver.numpy import ToNumpy
from penstock.loader.child.messages import MadeItem, SentColumn
from penstock.loader.child.sent import Setup
from penstock.loader.options import LoaderOptions
from penstock.loader.share import RankShare, share_of
from penstock.observe.bad_samples import BadSamples, OnError
from penstock.observe.quarantine import BadSample
from penstock.order.steps.cursor import Work
from penstock.plan.changed_weights import ChangedWeights
from penstock.processes.raised import Raised, raised
from penstock.runtime.run import Run
from penstock.runtime.stage import Delivered
from penstock.runtime.tune import Depth


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Whose steps are made: of a rank among so many, with these weights of mixes."""

    ranks: tuple[int, int]
    equal_parts: bool
    weights: ChangedWeights


def versions() -> dict[str, str]:
    """What a trainer and its actors must have in common."""
    return {"Penstock": native_version, "Python": platform.python_version().rpartition(".")[0]}


class MadeSteps(NamedTuple):
    """An item, and the bad samples that were met on the way: the trainer's loader counts them, and writes them down."""

    item: MadeItem
    bad: list[BadSample]


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


class StepMaker:
    """The actor. Its methods run in several threads of Ray's: each `make` waits for its own steps, which one run of the stages makes in the order of the calls."""

    def __init__(self, setup: Setup) -> None:
        given = dict(setup.options)
        given.pop("with_ids")
        self._options = LoaderOptions(**given)
        self._notes = _Notes(self._options.on_error)
        self._new_share = partial(
            share_of, setup.dataset, options=self._options, deliver=_ToTrainer(), bad_samples=self._notes
        )
        self._streams: dict[Any, _Stream] = {}
        self._lock = threading.Lock()

    def begin(self) -> tuple[dict[str, str], str, int]:
        """Its versions, the node's name and the process."""
        return versions(), f"{platform.node()} {ray.get_runtime_context().get_node_id()[:8]}", os.getpid()

    def make(self, wanted: Wanted, work: Work) -> MadeSteps | Raised:
        """The steps, or the error that they met."""
        try:
            item = self._stream(wanted).make(work).result()
        except BaseException as error:
            return raised(error)
        columns = dict(item.columns)
        made = MadeItem(number=0, work=work, rows_per_step=item.rows_per_step, columns=columns, ids=None, draws=None, places=[])  # fmt: skip
        return MadeSteps(made, self._notes.of(work))

    def _stream(self, wanted: Wanted) -> _Stream:
        key = (wanted.ranks, wanted.equal_parts, wanted.weights)
        with self._lock:
            for known, stream in self._streams.items():
                if known == key:
                    return stream
            share = self._new_share(wanted.ranks, equal_parts=wanted.equal_parts, weights=wanted.weights)
            stream = self._streams[key] = _Stream(share)
            return stream


class _ToTrainer(ToNumpy):
    """Delivers columns as they are, with their fields: the trainer's loader makes the framework's types of them."""

    def convert(self, column: Any, field: Field) -> SentColumn:
        """One column of an item, in a worker thread."""
        return SentColumn(column, field)


@dataclass(eq=False)
class _Asked:
    """Steps that were asked for, and what becomes of them."""

    work: Work
    made: Future[Delivered]


class _Stream:
    """A run of the stages on the work of all calls. An error ends the run, and the others of its work go to the next one."""

    def __init__(self, share: RankShare) -> None:
        self._share = share
        self._waiting: deque[_Asked] = deque()  # for a stage
        self._begun: deque[_Asked] = deque()  # in the run, in its order
        self._changed = threading.Condition()
        threading.Thread(target=self._take, name="penstock-ray", daemon=True).start()

    def make(self, work: Work) -> Future[Delivered]:
        """Has steps made behind those before."""
        asked = _Asked(work, Future())
        with self._changed:
            self._waiting.append(asked)
            self._changed.notify_all()
        return asked.made

    def _works(self, ended: threading.Event) -> Iterator[Work]:
        while True:
            with self._changed:
                while not self._waiting:
                    if ended.is_set():
                        return
                    self._changed.wait(timeout=1.0)
                asked = self._waiting.popleft()
                self._begun.append(asked)
            yield asked.work

    def _take(self) -> None:
        lowered = self._share.lowered
        while True:
            ended = threading.Event()
            works = lowered.budget.follow(self._works(ended))
            run = Run(lowered.stages, works, Depth(out=2, between=2, most=8), lowered.budget, lowered.tuner)
            try:
                while True:
                    item: Any = next(run)
                    with self._changed:
                        asked = self._begun.popleft()
                    asked.made.set_result(item)
                    del item, asked
            except BaseException as error:
                ended.set()
                with self._changed:
                    asked = self._begun.popleft()
                    self._changed.notify_all()
                with suppress(Exception):
                    run.close()
                with self._changed:  # what the run had begun goes to the next one, in its order
                    self._waiting.extendleft(reversed(self._begun))
                    self._begun.clear()
                asked.made.set_exception(error)
