"""The loader that users hold of one whose batches a child process makes."""

from __future__ import annotations

import logging
import math
import time
from functools import partial
from typing import Any

import numpy as np

from penstock.core.errors import ProcessError
from penstock.dataset import Dataset
from penstock.isolated.messages import Begin, Column, Made, Places
from penstock.isolated.process import Child
from penstock.isolated.sent import Setup, check_sendable
from penstock.loader import Loader
from penstock.loader_types import BatchT
from penstock.order.cursor import Position
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Delivered
from penstock.stages.lanes.states import Place

#: What the child needs to know of a loader's arguments. The others are of ranks, of what is given to the user, and of the ledger.
_OPTIONS = ("memory", "cpus", "prefetch", "epochs", "watchdog", "on_error", "max_errors", "quarantine")


class IsolatedLoader(Loader[BatchT]):
    """See `Loader`. Positions, states and the ledger are of this process, since they count what the consumer took; stages run in the child alone."""

    _is_isolated = True

    def __init__(self, dataset: Dataset, **options: Any) -> None:
        super().__init__(dataset, **options)
        check_sendable(dataset)
        self._options = {name: options[name] for name in _OPTIONS if name in options}
        self._child: Child | None = None
        self._streams = 0
        self._expected: Position | None = None  # of the item that comes next; None where no stream is under way
        self._begun_at = 0.0
        self._known: dict[Position, Places] = {}  # where lanes stand at steps that were made
        self._pinned = Slots(new_memory=self._deliver.new_memory) if self._deliver.copies else None

    def _begin(self) -> int:
        if self._progress.is_broken_off:
            self._stop()  # where lanes stand counts from here
        return super()._begin()

    # One item

    def _next_item(self) -> Delivered:
        try:
            child, number = self._streaming(self._progress.here)
            made = child.next_item(number)
        except KeyboardInterrupt:
            self._leave_child(at_once=True)
            raise
        except BaseException:
            self._expected = None
            raise
        if not self._first_batch_s:
            self._first_batch_s = time.perf_counter() - self._begun_at
        end = Position(made.work.epoch, made.work.step + made.work.steps)
        self._expected = self._normal(end)
        if made.places:
            steps = range(made.work.step, end.step + 1)
            self._known = dict(zip((Position(end.epoch, step) for step in steps), made.places, strict=True))
            self._known[self._expected] = made.places[-1]
        return self._delivered(made)

    def _streaming(self, here: Position) -> tuple[Child, int]:
        """The child, and the number of the stream whose next item begins at a position."""
        if self._child is not None and self._child.is_of_fork:
            raise ProcessError(
                "this loader was started before a fork, and the process that makes its batches belongs to the parent; make a new Loader in the child, or "
                "start children with the 'spawn' method"
            )
        if self._child is None or self._expected != here or here.epoch >= self._until:
            self._begin_stream(here)
        assert self._child is not None
        return self._child, self._streams

    def _begin_stream(self, here: Position) -> None:
        self._keep_places()
        self._first_batch_s, self._begun_at = 0.0, time.perf_counter()
        if self._child is not None and not self._child.is_running:
            self._leave_child(at_once=True)
        if self._child is None:
            self._child = Child(self._setup())
        self._lowered.lanes.move(here)
        self._streams += 1
        self._expected = here
        self._until = math.inf if self._epochs is None else max(self._epochs, here.epoch + 1)
        self._child.begin(
            Begin(
                number=self._streams,
                position=here,
                places=self._lowered.lanes.places(here) if self._lowered.lanes else {},
                ranks=self._share.ranks,
                equal_parts=self._share.equal_parts,
                weights=self._weights,
            )
        )

    def _setup(self) -> Setup:
        rank, world_size = self._share.ranks
        own = {"rank": rank, "world_size": world_size, "with_ids": self._ledger is not None}
        own["equal_parts"] = self._share.equal_parts
        level = logging.getLogger("penstock").getEffectiveLevel()
        return Setup(dataset=self.dataset, options={**self._options, **own}, log_level=level)

    def _delivered(self, made: Made) -> Delivered:
        """An item as it comes from stages of this process."""
        columns = {name: self._converted(column) for name, column in made.columns.items()}
        return Delivered(
            work=made.work,
            rows_per_step=made.rows_per_step,
            find_ids=partial(_given, made.ids),
            find_draws=partial(_given, made.draws),
            columns=self._deliver.finish(
                columns, made.rows_per_step, None if self._pinned is None else self._pinned.take
            ),
        )

    def _converted(self, column: Column) -> Any:
        """A column in the framework's types; on its way to a device in memory from which that copies fast."""
        values = column.values
        if self._pinned is not None and isinstance(values, np.ndarray) and values.dtype != object:
            pinned = self._pinned.take(values.nbytes).view(values.dtype).reshape(values.shape)
            np.copyto(pinned, values)
            values = pinned
        return self._deliver.convert(values, column.field)

    # Where it stands

    def _places_now(self) -> dict[str, list[Place]]:
        known = self._known.get(self._progress.here)
        return super()._places_now() if known is None else {str(lane): stages for lane, stages in known.items()}

    def _keep_places(self) -> None:
        """Lanes go on from the steps that were taken, not from those that were made."""
        here = self._progress.here
        if here in self._known:
            self._lowered.lanes.begin(here, self._known[here])
        self._known = {}

    # Telling

    def stats(self) -> dict[str, Any]:
        """See `Loader.stats`; the stages are those of the child."""
        child = self._child
        found = child.stats() if child is not None and self._streams and not child.is_of_fork else None
        if found is not None:
            self._last_stats = {**found, "first_batch_s": self._first_batch_s}
        return self._last_stats

    # The end

    def close(self) -> None:
        """See `Loader.close`; ends the child."""
        if self._child is not None:
            self.stats()
        super().close()
        self._leave_child(at_once=False)

    def _stop(self, *, keep_processes: bool = False) -> None:
        self._keep_places()
        if self._child is not None and self._expected is not None and not self._child.is_of_fork:
            self._child.stop()
        self._expected = None
        self._single_steps.clear()
        self._deliver.wait()
        for slots in (*self._lowered.slots, *([] if self._pinned is None else [self._pinned])):
            slots.drop()
        self._bad_samples.close()
        if self._ledger is not None:
            self._ledger.flush()

    def _leave_child(self, *, at_once: bool) -> None:
        child, self._child = self._child, None
        self._expected = None
        if child is not None:
            child.kill() if at_once else child.end()


def _given(value: Any) -> Any:
    return value
