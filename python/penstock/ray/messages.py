"""What a trainer and its actors say to each other."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from penstock.core.kernels import native_version
from penstock.loader.changed_plan import ChangedPlan
from penstock.loader.child.messages import MadeItem
from penstock.observe.quarantine import BadSample
from penstock.order.steps.cursor import Work
from penstock.processes.raised import Raised


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Whose steps are made: of a rank among so many, of a plan in which this changed. steps_per_epoch: of the plan."""

    ranks: tuple[int, int]
    equal_parts: bool
    changed: ChangedPlan
    steps_per_epoch: int

    def at(self, work: Work) -> int:
        """Where work begins, in steps counted over epochs."""
        return work.epoch * self.steps_per_epoch + work.step


class User(NamedTuple):
    """A loader that uses an actor. asks: how many actors it wants. machine: where it runs; versions: what is installed there."""

    name: str
    asks: int
    machine: str
    versions: tuple[tuple[str, str], ...]


class Told(NamedTuple):
    """What an actor says of itself. actors: how many there are to be, the most that one of its users asks for. made: items that it made so far; shared: those that it gave to one more loader."""

    node: str
    process: int
    actors: int
    users: int
    made: int
    shared: int


class MadeSteps(NamedTuple):
    """An item, and the bad samples that were met on the way: the trainer's loader counts them, and writes them down."""

    item: MadeItem
    bad: list[BadSample]

    @property
    def nbytes(self) -> int:
        """Bytes of its columns."""
        return sum(column.nbytes for column in self.item.columns.values())


#: What becomes of a request.
Answer: TypeAlias = MadeSteps | Raised


def versions() -> tuple[tuple[str, str], ...]:
    """What a trainer and its actors must have in common."""
    return ("Penstock", native_version), ("Python", platform.python_version().rpartition(".")[0])
