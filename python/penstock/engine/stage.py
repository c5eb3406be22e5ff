"""A stage is a function from item to item; it knows nothing of threads, time or other stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.rows import Rows
from penstock.spec import Columns, Ids, Spans, Spec


@dataclass(frozen=True, eq=False)
class Picked:
    """Rows to be picked out of tables: row i is row `row[i]` of `pieces[which[i]]` (both int64)."""

    pieces: tuple[Rows, ...]
    which: Ids
    row: Ids


@dataclass(frozen=True, eq=False)
class Opened:
    """Blocks that an item's rows lie in: row i in `pieces[which[i]]`."""

    pieces: tuple[Any, ...]
    which: Ids


@dataclass
class Item:
    """One or several neighbouring steps on their way through the stages; the unit of work.

    samples: int64, the ids of all rows, step after step; rows_per_step: how they divide. columns: what was made so far; delivered: what
    was made of them for the consumer.
    """

    epoch: int
    step: int
    steps: int
    samples: Ids
    rows_per_step: int
    records: Spans | None = None
    opened: Opened | None = None
    picked: Picked | None = None
    columns: Columns = field(default_factory=dict)
    spec: Spec = field(default_factory=dict)
    delivered: dict[str, Any] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Bytes that this item holds in memory, of records, of columns or of what is delivered."""
        held = sum(int(getattr(column, "nbytes", 0)) for column in (self.columns or self.delivered).values())
        return held or (int(self.records.length.sum()) if self.records is not None else 0)


@dataclass(frozen=True)
class Stage:
    """A named function; at most `threads` run it at once. `kind` is what limits it: "io", "cpu", "python" or "copy"."""

    name: str
    kind: str
    work: Callable[[Any], Item]
    threads: int = 1
