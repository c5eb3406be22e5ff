"""The cursor: from a position on, the pieces of work of this epoch, the next one, and so on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass


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
    """Neighbouring steps that are made together: steps [step, step + steps) of an epoch."""

    epoch: int
    step: int
    steps: int


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
