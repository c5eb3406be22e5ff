"""One pipeline for batches of any rows, in the order in which they are asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import numpy as np

from penstock.core.columns.spec import Ids
from penstock.core.cpus import usable_cpus
from penstock.core.errors import DataError
from penstock.core.warnings import warn
from penstock.dataset import Dataset
from penstock.deliver import open_deliver
from penstock.lower.context import context_of
from penstock.lower.layouts import with_layouts
from penstock.lower.stages import delivering, stages_of
from penstock.order.rows.by_id import ListedRows
from penstock.order.steps.asked import AskedById
from penstock.order.steps.batches import BatchOrder
from penstock.order.steps.cursor import Work
from penstock.plan.rules import optimize
from penstock.resolve.cut import cut
from penstock.resolve.ordering import RankSettings, order_of
from penstock.runtime.free_memory import default_memory
from penstock.runtime.run import Run
from penstock.runtime.slots import Slots
from penstock.runtime.tune import Depth
from penstock.runtime.tuner import Tuner

#: Batches that failed natively in a pass, before the rest of it is made by the dataset itself.
_MOST_FAILED = 16


@dataclass(frozen=True, kw_only=True)
class DrawnRows(ListedRows):
    """Rows one by one, each with a draw of its own, so that one that comes again gets other random numbers."""

    @property
    def has_draws(self) -> bool:
        """They have."""
        return True


class FilePipeline:
    """Makes batches of a plan's rows. One pass at a time has the threads; another one stops it."""

    def __init__(self, plan: Dataset) -> None:
        self._plan = plan
        self._now: Pass | None = None

    @contextmanager
    def running(self, seed: int) -> Iterator[Pass]:
        """A pass, whose random ops draw by a seed."""
        self.close()
        run = self._now = Pass(self._plan, seed)
        try:
            yield run
        finally:
            run.close()

    def close(self) -> None:
        """Stops the pass that is running."""
        if self._now is not None:
            self._now.close()
            self._now = None


class _FedRun(Run):
    """A run that works on what is put into a queue."""

    def __init__(self, asked: SimpleQueue[Work | None], parts: tuple[Any, ...]) -> None:
        self._asked = asked
        super().__init__(*parts)

    def close(self, ended_by: BaseException | None = None) -> None:
        """Stops all threads, also one that waits for work."""
        self._asked.put(None)
        super().close(ended_by)


class Pass:
    """Batches of one pass: `add` says which rows, `take` gives them in turn."""

    def __init__(self, plan: Dataset, seed: int) -> None:
        self._plan, self._seed, self._failed = plan, seed, 0
        self._added = deque[tuple[int, Ids | None]]()
        self._run: Run | None = None
        self._is_closed = False

    def add(self, number: int, rows: Ids | None) -> None:
        """The batch of that number has these rows; None for one that is not made here."""
        self._added.append((number, rows))
        if rows is not None and self._run is not None:
            self._ask(number, rows)

    def take(self) -> list[Any] | None:
        """The next batch, a list of its columns; None where it cannot be made natively."""
        if self._is_closed:
            raise RuntimeError("the dataset was closed, or another pass over it began; begin a new pass")
        if self._added[0][1] is None or self._failed >= _MOST_FAILED:
            self._added.popleft()
            return None
        if self._run is None:
            self._start()
        assert self._run is not None
        try:
            item: Any = self._run.take()
        except DataError as error:
            self._give_up(error)
            return None
        self._added.popleft()
        return [*item.columns.values()]

    def close(self) -> None:
        """Stops all threads."""
        self._is_closed = True
        self._stop()

    def _give_up(self, error: DataError) -> None:
        """One batch is left to the dataset itself; a new run continues behind it."""
        self._stop()
        self._added.popleft()
        self._failed += 1
        if self._failed == _MOST_FAILED:
            warn(
                f"penstock: {_MOST_FAILED} batches could not be decoded natively ({error}); the dataset makes the rest of this pass"
            )

    def _start(self) -> None:
        """Stages, and threads for them, with all that was added before."""
        root = self._plan.batch(1).root
        where = RankSettings(cpus=usable_cpus())
        order = BatchOrder(rows=DrawnRows(input=order_of(root, where).order.rows))
        root = cut(optimize(root, prepare=with_layouts))
        deliver = open_deliver("torch", None)
        slots = Slots(new_memory=deliver.new_memory)
        context = context_of(root, order, where, seed=0, slots=slots, memory_bytes=default_memory(1))
        lowered = stages_of(context)
        stages = *lowered.stages, delivering(lowered, deliver)
        self._asked = SimpleQueue[Work | None]()
        for number, rows in self._added:
            if rows is not None:
                self._ask(number, rows)
        works = context.budget.follow(iter(self._asked.get, None))
        tuner = Tuner(stages, (context.budget,))
        self._run = _FedRun(self._asked, (stages, works, Depth(), context.budget, tuner))

    def _ask(self, number: int, rows: Ids) -> None:
        draws = (number << 24) + np.arange(len(rows), dtype=np.int64)
        self._asked.put(Work(self._seed, number, 1, AskedById(row_ids=rows, row_draws=draws)))

    def _stop(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.close()
