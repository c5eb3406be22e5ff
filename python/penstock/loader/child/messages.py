"""What a loader and its child say to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.core.columns.spec import Field, Ids
from penstock.loader.changed_plan import ChangedPlan
from penstock.loader.item_source import LanePlaces
from penstock.observe.recorder import RawEvent
from penstock.observe.snapshot import Snapshot
from penstock.order.steps.cursor import Position, Work
from penstock.processes.raised import Raised, raised
from penstock.stages.lanes.all_feeds import EpochEnds


class SentColumn(NamedTuple):
    """A column of an item before a framework has it, and what the plan says of it."""

    values: Any
    field: Field

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return int(getattr(self.values, "nbytes", 0))


# From the loader


@dataclass(frozen=True, kw_only=True)
class BeginItems:
    """Make items from here on. number: of this stream of items, which every item of it carries. places: of lanes, at the position.

    ends: what is known of where the epoch ends; None where it does not end with its data.
    """

    number: int
    position: Position
    places: LanePlaces
    ends: EpochEnds | None
    ranks: tuple[int, int]
    equal_parts: bool
    changed: ChangedPlan


class ItemTaken(NamedTuple):
    """An item of the stream was taken: one more may be sent."""

    number: int


class StopItems(NamedTuple):
    """Nothing is wanted until a stream begins."""


class AskFigures(NamedTuple):
    """The answer is the figures so far."""

    number: int


# From the child


class HasLoader(NamedTuple):
    """The child has its loader."""


@dataclass(frozen=True, kw_only=True)
class MadeItem:
    """An item of a stream. ids, draws: as the plan says, for a ledger. places: of lanes, before each of its steps and behind the last one."""

    number: int
    work: Work
    rows_per_step: int
    columns: dict[str, SentColumn]
    ids: Ids | None
    draws: Ids | None
    places: list[LanePlaces]


class EndedEpoch(NamedTuple):
    """A stream's epoch has no more items, since its data has ended."""

    number: int
    ends: EpochEnds


class FailedItem(NamedTuple):
    """An error in place of an item, or of a loader."""

    number: int
    raised: Raised


@dataclass(frozen=True, kw_only=True)
class LoaderFigures:
    """The figures that were asked for, and what happened since they were asked for last."""

    number: int
    figures: Snapshot
    events: list[RawEvent]


class LoggedRecord(NamedTuple):
    """A record for the logger "penstock"."""

    level: int
    text: str


class WarningGiven(NamedTuple):
    """A warning, and where it was given."""

    text: str
    category: type[Warning]
    filename: str
    line: int


def failed(number: int, error: BaseException) -> FailedItem:
    """An error on its way to the loader."""
    return FailedItem(number, raised(error))
