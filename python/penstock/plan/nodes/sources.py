"""Where rows come from, and how several datasets are joined."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.core.byte_ranges import ByteRanges
from penstock.core.errors import PlanError
from penstock.core.given import is_one_of, is_whole
from penstock.core.limits import DEFAULT_LIMITS, Limits
from penstock.core.quoted import quoted
from penstock.plan.nodes.rows import MOST_ROWS
from penstock.plan.nodes.words import LATER
from penstock.plan.weights import Changes, Weights, check_weights, quotas_of
from penstock.source.protocol import AnySource

if TYPE_CHECKING:
    from penstock.plan.nodes import Node


@dataclass(frozen=True, eq=False, kw_only=True)
class Opened:
    """An opened source, how its bytes are read, and the storage that they lie in. asked: which columns were asked for, and as what."""

    source: AnySource
    read_ranges: ByteRanges
    storage: Any = None
    asked: str = ""


@dataclass(frozen=True, kw_only=True)
class Read:
    """Where the samples come from. limits: what their bytes may ask for, which changes no sample."""

    opened: Opened
    where: str
    format: str
    columns: tuple[tuple[str, str], ...]
    limits: Limits = field(default=DEFAULT_LIMITS, metadata={"affects_result": False})
    verb: str = "read"


@dataclass(frozen=True, kw_only=True)
class Concat:
    """The rows of several inputs, one after another."""

    inputs: tuple[Node, ...]
    verb: str = "concat"


@dataclass(frozen=True, kw_only=True)
class Mix:
    """The rows of several inputs, each row from the one whose turn it is by the weights. stop, rows: when an epoch ends.

    changes: other weights, from a step on, counted over epochs.
    """

    inputs: tuple[Node, ...]
    weights: Weights
    changes: Changes = field(default=(), metadata=LATER)
    stop: str = "first_exhausted"
    rows: int | None = None
    verb: str = "mix"

    def __post_init__(self) -> None:
        check_weights("mix", self.weights, len(self.inputs))
        for step, weights in self.changes:
            check_weights(f"mix: from step {step} on", weights, len(self.inputs))
        if not is_one_of(self.stop, ("first_exhausted", "all_exhausted")):
            raise PlanError(
                f"mix: stop={quoted(self.stop)}; choose 'first_exhausted' or 'all_exhausted', or give rows="
            )
        if self.rows is not None and (not is_whole(self.rows) or not 1 <= self.rows <= MOST_ROWS):
            raise PlanError(f"mix: rows={quoted(self.rows)}; an epoch has at least one row, and a whole number of them")
        if self.changes and self.rows is None:
            raise PlanError(
                "mix: weights that change need epochs of so many rows, in which each dataset goes on where it was; write mix(…, rows=…)"
            )

    @property
    def quotas(self) -> tuple[int, ...]:
        """The weights as whole numbers."""
        return quotas_of(self.weights)

    @property
    def schedule(self) -> Changes:
        """All weights, by the step from which on they hold."""
        return ((0, self.weights), *self.changes)


@dataclass(frozen=True, kw_only=True)
class Zip:
    """The columns of several inputs side by side: row i of each is row i. on: by which key the inputs were brought into one order before."""

    inputs: tuple[Node, ...]
    on: str | None = field(default=None, metadata=LATER)
    verb: str = "zip"


@dataclass(frozen=True, kw_only=True)
class SourceColumn:
    """A column with the number of the dataset, of a mix or a concat, that each row came of."""

    input: Node
    name: str
    verb: str = "source"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise PlanError(
                f"{self.input.verb}: source={quoted(self.name)}; give the new column a name, for example source='source'"
            )
