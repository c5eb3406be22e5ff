"""The interface of readers: an item's rows of one source, from sample ids to columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

from penstock.core.spec import Columns, Field, Spec
from penstock.order.batches import BatchOrder
from penstock.plan.nodes import Read
from penstock.resolve.ordering import Where
from penstock.runtime.budget import Budget
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Item, SourceRows


class Needs(NamedTuple):
    """Memory that rows need besides their columns: for blocks and records that are opened, and of all their records where that is known."""

    block_bytes: int = 0
    record_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a reader works with.

    leaf: the source, and how it is read. number, first_id: of the source, and of its first row. reads_at_once: items that are read at
    once. slots, record_slots: memory for columns, and for records, which are never copied to a device. row_bytes: of the sources' columns, in the mean.
    """

    leaf: Read
    number: int
    first_id: int
    order: BatchOrder
    where: Where
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
        return self.order.rows.block_rows_at(self.first_id)

    @property
    def read(self) -> Any:
        """Reads byte ranges of the source's files: (shard, offset, length, out, at)."""
        return partial(self.leaf.opened.read_ranges, self.leaf.opened.source.manifest.stored)


class Reader(Protocol):
    """How rows of one source are reached; there is one for each `source.protocol.Access`.

    First `plan`, which says what is needed; when there is room for it `open`, which takes the memory; then `read`, then `columns`. Each leaves
    what it made in `rows.held`. in_order: one thread plans and opens, in the order of the work, since blocks stay open. plans: whether
    `plan` finds anything out; else no reader's `plan` is called in the order of the work. threads: that read at once. kind: whether the
    last step is named "parse" or "gather".
    """

    in_order: bool
    plans: bool
    threads: int
    kind: str

    @property
    def spec(self) -> Spec:
        """The columns that it makes."""

    def plan(self, item: Item, rows: SourceRows) -> Needs:
        """What the rows need; takes no memory yet."""

    def open(self, rows: SourceRows) -> None:
        """Takes the memory."""

    def read(self, rows: SourceRows) -> None:
        """Reads."""

    def columns(self, item: Item, rows: SourceRows) -> Columns:
        """The rows' columns, those of the source's spec."""
