"""The interface of readers: an item's rows of one source, from sample ids to columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from penstock.core.columns.repeated_values import is_repeated, picked_bytes
from penstock.core.columns.rows import Rows
from penstock.core.columns.spec import Bytes, Columns, Field, Ids, Spec
from penstock.core.files.byte_ranges import FileRanges
from penstock.order.steps.cursor import Cursor
from penstock.plan.nodes import Read
from penstock.runtime.budget import Budget
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Item, SourceRows


class Needs(NamedTuple):
    """Memory that rows need besides their columns: for blocks and records that are opened, and of all their records where that is known."""

    block_bytes: int = 0
    record_bytes: int | None = None


@dataclass(frozen=True, eq=False)
class Picks:
    """Where rows lie in tables: row i is row `row[i]` of `pieces[which[i]]`."""

    pieces: tuple[Rows, ...]
    which: Ids
    row: Ids

    @property
    def repeated_bytes(self) -> int:
        """What their values take in columns of which each stands once for many rows."""
        names = self.pieces[0].others if self.pieces else ()
        columns = [[piece.others[name] for piece in self.pieces] for name in names]
        return sum(picked_bytes(parts, self.which, self.row) for parts in columns if any(map(is_repeated, parts)))


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a reader works with.

    leaf: the source, and how it is read. number, first_id: of the source, and of its first row. reads_at_once: items that are read at
    once. slots, record_slots: memory for columns, and for records, which are never copied to a device. row_bytes: of the source's rows in open blocks, in the mean.
    """

    leaf: Read
    number: int
    first_id: int
    cursor: Cursor
    seed: int
    reads_at_once: int
    slots: Slots
    record_slots: Slots
    budget: Budget
    row_bytes: int

    def allocate(self, _: str, field: Field, rows: int) -> Any:
        """An array for a column of so many rows."""
        return self.slots.array(field, rows)

    @property
    def block_rows(self) -> int:
        """How many of the source's rows are read together; 1 where each is read by itself."""
        return self.cursor.order.rows.block_rows_at(self.first_id)

    def read(self, ranges: FileRanges, out: Bytes) -> None:
        """Reads byte ranges of the source's files to their places."""
        self.leaf.opened.read_ranges.fill(self.leaf.opened.source.manifest.stored, ranges, out)


PlanT = TypeVar("PlanT")
OpenedT = TypeVar("OpenedT")
HeldT = TypeVar("HeldT")


class Reader(Protocol[PlanT, OpenedT, HeldT]):
    """How rows of one source are reached; there is one for each `source.protocol.Access`.

    Each step makes what the next one gets, and its types are the reader's own:

        plan ──► Needs, PlanT ──► open ──► OpenedT ──► read ──► HeldT ──► columns
        what is needed            takes the memory     fills it            makes columns of it

    `open` follows when there is room for what `plan` found. in_order: one thread plans and opens, in the order of the work, since blocks stay open.
    plans: whether `plan` finds anything out; where no reader's does, neither `plan` nor `open` is called, and `read` gets None. threads: that read at once.
    kind: whether the last step is named "parse" or "gather".
    """

    in_order: bool
    plans: bool
    threads: int
    kind: str

    @property
    def spec(self) -> Spec:
        """The columns that it makes."""

    def plan(self, item: Item, rows: SourceRows) -> tuple[Needs, PlanT]:
        """What the rows need; takes no memory yet."""

    def open(self, item: Item, rows: SourceRows, plan: PlanT) -> OpenedT:
        """Takes the memory."""

    def read(self, rows: SourceRows, opened: OpenedT) -> HeldT:
        """Reads."""

    def columns(self, item: Item, rows: SourceRows, held: HeldT) -> Columns:
        """The rows' columns, those of the source's spec."""


#: A reader of whatever kind. What it makes of an item's rows goes to nobody but itself.
AnyReader: TypeAlias = Reader[Any, Any, Any]
