"""Verbs that give more or fewer rows than they get, by what the data says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.core.errors import PlanError
from penstock.core.given import hold_as_int, is_whole
from penstock.core.packing import Packing
from penstock.core.quoted import quoted
from penstock.plan.nodes.functions import check_function
from penstock.plan.nodes.words import LATER

if TYPE_CHECKING:
    from penstock.plan.nodes import Node

#: A function of `flat_map` gets no more rows together, of each lane: all of them are read before it begins.
_MOST_TOGETHER = 1 << 20


class LaneNode:
    """What verbs have in common that give more or fewer rows than they get, by what the data says: they run lane by lane.

    How many rows come out is known once they came, so that an epoch is as long as `batch` or `mix` says.
    """


@dataclass(frozen=True, kw_only=True)
class FilterFunction(LaneNode):
    """The rows for which a user's function says True: batch dict in, a mask of its rows out. columns: those that it gets, None for all."""

    input: Node
    function: Callable[..., Any]
    columns: tuple[str, ...] | None = field(default=None, metadata=LATER)
    text: str = field(default="arrow", metadata=LATER)
    workers: str = field(default="thread", metadata={"affects_result": False})
    verb: str = "filter"

    def __post_init__(self) -> None:
        check_function(self)


@dataclass(frozen=True, kw_only=True)
class FlatMap(LaneNode):
    """A user's function on `rows` neighbouring rows of a lane: batch dict in, batch dict of any number of rows out."""

    input: Node
    function: Callable[..., Mapping[str, Any]]
    rows: int = 16
    text: str = field(default="arrow", metadata=LATER)
    workers: str = field(default="thread", metadata={"affects_result": False})
    verb: str = "flat_map"

    def __post_init__(self) -> None:
        check_function(self)
        if not is_whole(self.rows) or not 1 <= self.rows <= _MOST_TOGETHER:
            raise PlanError(
                f"flat_map: rows={quoted(self.rows)}; the function gets at least one row, a whole number of them, and at most {_MOST_TOGETHER:,}"
            )
        hold_as_int(self, "rows")


@dataclass(frozen=True, kw_only=True)
class Pack(LaneNode, Packing):
    """Rows of tokens become sequences of one length: see `core.packing.Packing`."""

    input: Node
    verb: str = "pack"


@dataclass(frozen=True, kw_only=True)
class SkipBad(LaneNode):
    """The rows that could be made: a Loader that leaves out bad rows puts it into its plan (see `plan.skipping`)."""

    input: Node
    verb: str = "skip bad rows"
