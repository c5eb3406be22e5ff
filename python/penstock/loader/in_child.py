"""Has a loader's items made in a child process, with isolation="process"."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from penstock.core.errors import ProcessError
from penstock.dataset import Dataset
from penstock.deliver import Deliver
from penstock.loader.child.messages import BeginItems, EndedEpoch, MadeItem, SentColumn
from penstock.loader.child.process import Child
from penstock.loader.child.sent import Setup, check_sendable
from penstock.loader.item_source import LanePlaces, WokenError
from penstock.loader.options import LoaderOptions
from penstock.loader.share import RankShare
from penstock.observe.bad_samples import BadSamples
from penstock.observe.recorder import Recorder
from penstock.observe.snapshot import Snapshot
from penstock.order.steps.cursor import Position
from penstock.order.steps.natural import NaturalBatches
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Delivered


class InChild:
    """An `ItemSource`: no stage runs in this process. The child has the same share, and makes a *stream* of items from a position on.

    What the child does is known here by what it sends: with each item it tells where lanes stand, so that a state needs no answer. The parent has no
    thread of its own, which would wait for a training loop that holds the interpreter.
    """

    _share: RankShare  # since `begin`

    def __init__(
        self,
        dataset: Dataset,
        options: LoaderOptions,
        deliver: Deliver,
        bad_samples: BadSamples,
        recorder: Recorder,
        *,
        with_ids: bool,
    ) -> None:
        self._recorder = recorder
        self._dataset, self._options, self._deliver, self._bad_samples = dataset, options, deliver, bad_samples
        self._with_ids, self._is_checked, self._is_interrupted = with_ids, False, False
        self._child: Child | None = None
        self._streams = 0
        self._expected: Position | None = None  # of the item that comes next; None where no stream is under way
        self._until = math.inf  # the first epoch that the stream does not have
        self._begun_at, self._first_batch_s = 0.0, 0.0
        self._last_stats = Snapshot()
        self._known: dict[Position, LanePlaces] = {}  # where lanes stand at steps that were made
        self._pinned = Slots(new_memory=deliver.new_memory) if deliver.copies else None

    def begin(self, share: RankShare) -> None:
        """See `ItemSource`; PlanError if the dataset cannot be sent to another process."""
        if not self._is_checked:
            check_sendable(self._dataset)
        self._share, self._is_checked = share, True

    # One item

    def next_item(self, here: Position, about_stall: Callable[[], str]) -> Delivered | None:
        """See `ItemSource`; the child's own loader tells of stalls."""
        try:
            child, number = self._streaming(here)
            made = child.next_item(number)
        except KeyboardInterrupt:
            self._leave_child(at_once=True)
            raise
        except BaseException as error:
            self._expected = None
            if self._is_interrupted and isinstance(error, ProcessError):
                raise WokenError from None
            raise
        if isinstance(made, EndedEpoch):
            self._expected = None
            self._share.lowered.lanes.know_ends(here.epoch, made.ends)
            return None
        if not self._first_batch_s:
            self._first_batch_s = time.perf_counter() - self._begun_at
        end = Position(made.work.epoch, made.work.step + made.work.steps)
        self._expected = self._share.normal(end)
        if made.places:
            steps = range(made.work.step, end.step + 1)
            self._known = dict(zip((Position(end.epoch, step) for step in steps), made.places, strict=True))
            self._known[self._expected] = made.places[-1]
        if isinstance(made.work.order, NaturalBatches):
            self._share.lowered.lanes.know(end.epoch, made.work.order.ends)
        return self._delivered(made)

    def interrupt(self) -> None:
        """See `ItemSource`; ends the child."""
        self._is_interrupted = True
        if (child := self._child) is not None and not child.is_of_fork:
            child.kill()

    def end_pass(self, here: Position) -> None:
        """See `ItemSource`; nothing is put off."""

    def _streaming(self, here: Position) -> tuple[Child, int]:
        """The child, and the number of the stream whose next item begins at a position."""
        if self._child is not None and self._child.is_of_fork:
            raise ProcessError(
                "this loader was started before a fork, and the process that makes its batches belongs to the parent; make a new Loader in the child, or "
                "start children with the 'spawn' method"
            )
        if self._is_interrupted:
            self._is_interrupted = False
            self._leave_child(at_once=True)
        if self._child is None or self._expected != here or here.epoch >= self._until:
            self._begin_stream(here)
        assert self._child is not None
        return self._child, self._streams

    def _begin_stream(self, here: Position) -> None:
        self._keep_places(here)
        self._first_batch_s, self._begun_at = 0.0, time.perf_counter()
        self._recorder.begin_run()
        if self._child is not None and not self._child.is_running:
            self._leave_child(at_once=True)
        if self._child is None:
            self._child = Child(self._setup(), self._recorder)
        share, lanes = self._share, self._share.lowered.lanes
        lanes.move(here)
        self._streams += 1
        self._expected = here
        self._until = math.inf if self._options.epochs is None else max(self._options.epochs, here.epoch + 1)
        self._child.begin(
            BeginItems(
                number=self._streams,
                position=here,
                places=lanes.places(here) if lanes else {},
                ends=lanes.ends_of(here.epoch) if lanes.has_ends else None,
                ranks=share.ranks,
                equal_parts=share.equal_parts,
                changed=share.told,
            )
        )

    def _setup(self) -> Setup:
        level = logging.getLogger("penstock").getEffectiveLevel()
        options = {**self._options.sent, "with_ids": self._with_ids}
        return Setup(dataset=self._dataset, options=options, log_level=level)

    def _delivered(self, made: MadeItem) -> Delivered:
        """An item as it comes from stages of this process."""
        columns = {name: self._converted(column) for name, column in made.columns.items()}
        take = None if self._pinned is None else self._pinned.take
        return Delivered(
            work=made.work,
            rows_per_step=made.rows_per_step,
            find_ids=partial(_given, made.ids),
            find_draws=partial(_given, made.draws),
            columns=self._deliver.finish(columns, made.rows_per_step, take),
        )

    def _converted(self, column: SentColumn) -> Any:
        """A column in the framework's types; on its way to a device in memory from which that copies fast."""
        values = column.values
        if self._pinned is not None and isinstance(values, np.ndarray) and values.dtype != object:
            pinned = self._pinned.take(values.nbytes).view(values.dtype).reshape(values.shape)
            np.copyto(pinned, values)
            values = pinned
        return self._deliver.convert(values, column.field)

    # Where it stands

    def places(self, here: Position) -> LanePlaces:
        """See `ItemSource`."""
        lanes = self._share.lowered.lanes
        return self._known.get(here) or (lanes.places(here) if lanes else {})

    def _keep_places(self, here: Position) -> None:
        """Lanes go on from the steps that were taken, not from those that were made."""
        if here in self._known:
            self._share.lowered.lanes.begin(here, self._known[here])
        self._known = {}

    def stats(self) -> Snapshot:
        """See `ItemSource`; the stages are those of the child."""
        child = self._child
        return self._noted(child.stats() if child is not None and self._streams and not child.is_of_fork else None)

    def stats_at_once(self) -> Snapshot:
        """See `ItemSource`."""
        child = self._child
        return self._noted(
            child.stats_at_once() if child is not None and self._streams and not child.is_of_fork else None
        )

    def _noted(self, found: Snapshot | None) -> Snapshot:
        if found is not None:
            self._last_stats = replace(found, first_batch_s=self._first_batch_s)
        return self._last_stats

    # The end

    def stop(self, here: Position) -> None:
        """See `ItemSource`; the child stays, too."""
        self._keep_places(here)
        if self._child is not None and self._expected is not None and not self._child.is_of_fork:
            self._child.stop()
        self._expected = None
        self._deliver.wait()
        for slots in (*self._share.lowered.slots, *([] if self._pinned is None else [self._pinned])):
            slots.drop()
        self._bad_samples.close()

    def close(self, here: Position) -> None:
        """See `ItemSource`; ends the child."""
        if self._child is not None:
            self.stats()
        self.stop(here)
        self._leave_child(at_once=False)

    def _leave_child(self, *, at_once: bool) -> None:
        child, self._child = self._child, None
        self._expected = None
        if child is not None:
            child.kill() if at_once else child.end()


def _given(value: Any) -> Any:
    return value
