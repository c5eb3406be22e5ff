"""Pieces of work, from a position on, and a rank's cursor: which rows each of them takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids
from penstock.order.protocol import is_open
from penstock.order.steps.asked import AskedRows
from penstock.order.steps.batches import BatchOrder


@dataclass(frozen=True, order=True)
class Position:
    """The next step to be delivered. The whole state of a run, since a batch is a function of its step."""

    epoch: int = 0
    step: int = 0

    def after(self, other: Position, steps_per_epoch: int) -> int:
        """How many steps it is after another one: Position(1, 2).after(Position(0, 5), 8) == 5."""
        return (self.epoch - other.epoch) * steps_per_epoch + self.step - other.step


@dataclass(frozen=True)
class Work:
    """Neighbouring steps that are made together: steps [step, step + steps) of an epoch.

    asked: the rows, where they are no steps of the order: `step` is then no more than the work's own number, and `steps` is 1.
    order: of the epoch, where epochs differ by what the data says (see `natural`); None for that of the plan.
    drawn: gets what ops draw, with the places of their rows in the step (None for all of them); None where nobody asks.
    watched: the first rows, and what gets the places of those among them that a transform works on, and what each op does to them; None where nobody asks.
    """

    epoch: int
    step: int
    steps: int
    asked: AskedRows | None = field(default=None, compare=False, repr=False)
    order: BatchOrder | None = field(default=None, compare=False, repr=False)
    drawn: list[tuple[Ids | None, Mapping[str, Any]]] | None = field(default=None, compare=False, repr=False)
    watched: tuple[int, list[tuple[Ids, Mapping[str, Any]]]] | None = field(default=None, compare=False, repr=False)

    @property
    def step_in_epoch(self) -> int | None:
        """The first step of the epoch that it makes; None where no step has its rows yet."""
        return self.step if self.asked is None else self.asked.step


class Cursor:
    """Turns work into rows: the order's arithmetic for one rank. Every question about a piece of work is asked here.

    Most work is steps of the order; where it carries rows that somebody asked for, these answer.
    """

    def __init__(self, order: BatchOrder, rank: int, world_size: int) -> None:
        self.order, self._ranks = order, (rank, world_size)
        self.share = order.share(rank, world_size)
        self.rows_per_step = -(-order.rows_per_step // world_size)

    def order_of(self, work: Work) -> BatchOrder:
        """The order whose steps it is."""
        return work.order or self.order

    def ids(self, work: Work, threads: int = 1) -> Ids:
        """The ids of this rank's rows."""
        if work.asked is not None:
            return work.asked.ids(self.order_of(work).rows, work.epoch)
        return self.order_of(work).ids(work.epoch, work.step, work.steps, *self._ranks, threads)

    def draws(self, work: Work, threads: int = 1) -> Ids | None:
        """The draws of the same rows; None where all are the epoch."""
        if work.asked is not None:
            return work.asked.draws(self.order_of(work).rows, work.epoch)
        return self.order_of(work).draws(work.epoch, work.step, work.steps, *self._ranks, threads)

    def place(self, work: Work, index: Ids) -> tuple[Ids, Ids]:
        """The lanes of some of the rows, by their places among `ids`, and which rows of these lanes they are."""
        if work.asked is not None:
            return work.asked.place(index)
        return self.order_of(work).place(work.step, work.steps, *self._ranks, index)

    def next_rows(self, work: Work, *, after: bool = False) -> Ids:
        """The first row of each lane that this work or later work takes; `after`: that later work takes. NEVER of lanes of other ranks."""
        if work.asked is not None:
            return work.asked.next_rows(after=after)
        return self.order_of(work).next_rows(work.step + work.steps * after, *self._ranks)

    def is_open_after(self, work: Work, lane: Ids, end: Ids) -> npt.NDArray[np.bool_]:
        """Whether later work may take rows of blocks, by where these are done: the lane, -1 for all, and its first row that needs them no more."""
        return is_open(self.next_rows(work, after=True), lane, end)


def works(
    start: Position,
    *,
    steps_per_epoch: int,
    full_steps: int,
    steps_per_work: int,
    epochs: int | None = None,
    taken: Callable[[], int] | None = None,
) -> Iterator[Work]:
    """All work from `start` on, in order; pieces end at multiples of `steps_per_work`, and full steps stand apart from others.

    It ends with epoch number epochs - 1, or with the epoch of `start` if that is a later one; for None never. taken: how many steps the consumer
    took so far; the first piece is one step, and later ones are no more than twice as many as that.

    [w.steps for w in islice(works(Position(0, 3), steps_per_epoch=6, full_steps=5, steps_per_work=4), 4)] == [1, 1, 1, 4]
    """
    epoch, step = start.epoch, start.step
    while epochs is None or epoch < max(epochs, start.epoch + 1):
        while step < steps_per_epoch:
            most = steps_per_work if taken is None else min(steps_per_work, 1 << taken().bit_length())
            aligned = step - step % most + most
            last = min(aligned, full_steps) if step < full_steps else min(aligned, steps_per_epoch)
            yield Work(epoch, step, last - step)
            step = last
        epoch, step = epoch + 1, 0
