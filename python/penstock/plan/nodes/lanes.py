"""Verbs that give more or fewer rows than they get, by what the data says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from penstock.core.arguments import hold_as_int, is_whole
from penstock.core.columns.spec import Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.core.verbs.lengths import Lengths
from penstock.core.verbs.packing import Packing
from penstock.plan.columns import check_names, spec_of
from penstock.plan.node import Node, Verb
from penstock.plan.nodes.functions import FunctionVerb
from penstock.plan.nodes.rows import Shard
from penstock.plan.nodes.sources import Read
from penstock.plan.nodes.words import LATER, said_of
from penstock.plan.tree import check_endless, find, find_where, is_column_unknown, leaves

#: A function of `flat_map` gets no more rows together, of each lane: all of them are read before it begins.
_MOST_TOGETHER = 1 << 20


@dataclass(frozen=True, kw_only=True, eq=False)
class LaneNode(Verb):
    """What verbs have in common that give more or fewer rows than they get, by what the data says: they run lane by lane.

    How many rows come out is known once they came, so that an epoch is as long as `batch` or `mix` says.
    """

    row_effect = "counted"
    keeps_order = True
    computes = True

    def check(self) -> None:
        """PlanError where rows are in batches or shards already."""
        check_endless(self.verb, self.input, by_lane=True)
        found = find_where(self.input, lambda node: node.is_batch) or find(self.input, Shard)
        if found is not None:
            raise PlanError(f"{self.verb}: must come before {found.verb}, since it decides which rows there are")


@dataclass(frozen=True, kw_only=True)
class FilterFunction(LaneNode, FunctionVerb):
    """The rows for which a user's function says True: batch dict in, a mask of its rows out. columns: those that it gets, None for all."""

    function: Callable[..., Any]
    columns: tuple[str, ...] | None = field(default=None, metadata=LATER)
    text: str = field(default="arrow", metadata=LATER)
    workers: str = field(default="thread", metadata={"affects_result": False})
    verb: str = "filter"

    def said(self) -> Iterator[tuple[str, str]]:
        """Which columns the function gets, where it said so."""
        if self.columns is not None:
            yield "columns", ", ".join(self.columns)
        yield from super().said()

    def check(self) -> None:
        """PlanError where rows are in batches already, and for a column that is not there."""
        super().check()
        if self.columns is not None:
            check_names(self.verb, self.columns, self.input)


@dataclass(frozen=True, kw_only=True)
class FlatMap(LaneNode, FunctionVerb):
    """A user's function on `rows` neighbouring rows of a lane: batch dict in, batch dict of any number of rows out."""

    function: Callable[..., Mapping[str, Any]]
    rows: int = 16
    text: str = field(default="arrow", metadata=LATER)
    workers: str = field(default="thread", metadata={"affects_result": False})
    verb: str = "flat_map"

    column_effect = "unknown"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_whole(self.rows) or not 1 <= self.rows <= _MOST_TOGETHER:
            raise PlanError(
                f"flat_map: rows={quoted(self.rows)}; the function gets at least one row, a whole number of them, and at most {_MOST_TOGETHER:,}"
            )
        hold_as_int(self, "rows")


@dataclass(frozen=True, kw_only=True)
class Pack(LaneNode, Packing):
    """Rows of tokens become sequences of one length: see `core.verbs.packing.Packing`. lengths: of the rows below what keeps all of them, where they were given to count by."""

    lengths: Lengths | None = field(default=None, metadata={"affects_result": False, "unsaid": True})
    verb: str = "pack"

    column_effect = "unknown"

    def said(self) -> Iterator[tuple[str, str]]:
        """How rows are packed."""
        return said_of(self, Packing)

    def check(self) -> None:
        """PlanError where rows are in batches already, and for columns that cannot be packed."""
        super().check()
        if not is_column_unknown(self.input):
            self.spec_of(spec_of(self.input))


@dataclass(frozen=True, kw_only=True)
class SkipBad(LaneNode):
    """The rows that could be made: a Loader that leaves out bad rows puts it into its plan (see `plan.skipping`)."""

    verb: str = "skip bad rows"


@dataclass(frozen=True, kw_only=True)
class InLanes(LaneNode):
    """All rows, lane by lane: what stands in a join beside lane stages, where epochs end with them (see `plan.ends`)."""

    verb: str = "in_lanes"


@dataclass(frozen=True, kw_only=True, eq=False)
class LaneOutput(Node):
    """What a lane stage gives: a leaf of the plan above it, once that was cut (see `resolve.cut`). It answers what is asked of a `Read`.

    node: the stage, with all that is below. samples: how many ids its rows take, and lane_rows: those of each lane, of which as many rows as ever come have one.
    """

    node: Node
    samples: int
    lane_rows: int
    verb: str = "lanes"

    row_effect = "counted"
    column_effect = "unknown"

    access: ClassVar[None] = None
    block_rows: ClassVar[int] = 1
    files: ClassVar[int] = 0
    #: What quarantines have from the first for the data of all such rows.
    digest: ClassVar[str] = "c1826ca25e439ca89a9d5aaf3050afb4"

    @property
    def sources(self) -> tuple[Read, ...]:
        """Those below the stage."""
        return leaves(self.node)

    @property
    def where(self) -> str:
        """The stage's verb, which stands for a place."""
        return self.node.verb

    @property
    def size_bytes(self) -> int:
        """Bytes of all its rows, if each were as long as those below are in the mean."""
        return self._as_below([one.size_bytes for one in self.sources])

    @property
    def open_bytes(self) -> int:
        """The same, as `Read` says it."""
        return self._as_below([one.open_bytes for one in self.sources])

    @property
    def decoded_bytes(self) -> int:
        """The same, as `Read` says it."""
        return self._as_below([one.decoded_bytes for one in self.sources])

    def _as_below(self, sizes: Sequence[int]) -> int:
        return sum(sizes) // max(1, sum(one.samples for one in self.sources)) * self.samples

    def place(self, sample: int) -> str:
        """Where a row comes from, for messages."""
        lane, row = divmod(sample, self.lane_rows)
        return f"{self.where}: row {row:,} of lane {lane}"

    def file_of(self, sample: int) -> tuple[None, None]:
        """None, for the file and the row's number there: rows that were made lie in no file."""
        return None, None

    def spec_of_inputs(self, below: Sequence[Spec]) -> Spec:
        """No field of a source comes through."""
        return {}
