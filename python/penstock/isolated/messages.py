"""What a loader and its child say to each other."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.core.spec import Field, Ids
from penstock.order.cursor import Position, Work
from penstock.plan.changed_weights import ChangedWeights
from penstock.processes.functions import dumps
from penstock.processes.link import pickled_error, unpickled
from penstock.stages.lanes.states import Place

#: Where each lane stands.
Places = dict[int, list[Place]]


class Column(NamedTuple):
    """A column of an item before a framework has it, and what the plan says of it."""

    values: Any
    field: Field

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return int(getattr(self.values, "nbytes", 0))


# From the loader


@dataclass(frozen=True, kw_only=True)
class Begin:
    """Make items from here on. number: of this stream of items, which every item of it carries. places: of lanes, at the position."""

    number: int
    position: Position
    places: Places
    ranks: tuple[int, int]
    equal_parts: bool
    weights: ChangedWeights


class Taken(NamedTuple):
    """An item of the stream was taken: one more may be sent."""

    number: int


class Stop(NamedTuple):
    """Nothing is wanted until a stream begins."""


class AskStats(NamedTuple):
    """The answer is the figures so far."""

    number: int


# From the child


class Ready(NamedTuple):
    """The child has its loader."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """An item of a stream. ids, draws: as the plan says, for a ledger. places: of lanes, before each of its steps and behind the last one."""

    number: int
    work: Work
    rows_per_step: int
    columns: dict[str, Column]
    ids: Ids | None
    draws: Ids | None
    places: list[Places]


@dataclass(frozen=True, kw_only=True)
class Failed:
    """An error in place of an item, or of a loader. pickled: None where it cannot be; then shown says what it was. trace: its traceback."""

    number: int
    pickled: bytes | None
    shown: str
    trace: str


@dataclass(frozen=True, kw_only=True)
class Stats:
    """The figures that were asked for."""

    number: int
    figures: dict[str, Any]


class Logged(NamedTuple):
    """A record for the logger "penstock"."""

    level: int
    text: str


class Warned(NamedTuple):
    """A warning, and where it was given."""

    text: str
    category: type[Warning]
    filename: str
    line: int


class ChildError(Exception):
    """The traceback of an error in the child."""

    def __str__(self) -> str:
        return f"in the process of isolation='process':\n\n{self.args[0]}"


def failed(number: int, error: BaseException) -> Failed:
    """An error on its way to the loader."""
    trace = "".join(traceback.format_exception(error)).rstrip("\n")
    return Failed(number=number, pickled=pickled_error(error, dumps), shown=_or_class(error, repr), trace=trace)


def error_of(told: Failed) -> BaseException:
    """The error with its type and attributes; the child's traceback is its cause."""
    error: BaseException | None = None
    if told.pickled is not None:
        with suppress(Exception):
            error = unpickled(told.pickled)
    if error is None:
        error = RuntimeError(f"{told.shown} (an error that cannot be pickled)")
    error.__cause__ = ChildError(told.trace)
    return error


def _or_class(error: BaseException, shown: Callable[[Any], str]) -> str:
    with suppress(Exception):
        return shown(error)
    return type(error).__qualname__
