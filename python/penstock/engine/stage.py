"""A stage is a function from item to item; it knows nothing of threads, time or other stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.core.rows import Rows
from penstock.core.spec import Columns, Ids, Spans, Spec
from penstock.engine.budget import Share


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

    find_samples: gives `samples`, when they are first asked for; rows_per_step: how rows divide. columns: what was made so far; delivered: what
    was made of them for the consumer; share: its part of the memory that the run may hold.
    """

    epoch: int
    step: int
    steps: int
    find_samples: Callable[[], Ids]
    rows_per_step: int
    records: Spans | None = None
    opened: Opened | None = None
    picked: Picked | None = None
    columns: Columns = field(default_factory=dict)
    spec: Spec = field(default_factory=dict)
    delivered: dict[str, Any] = field(default_factory=dict)
    share: Share | None = None
    _samples: Ids | None = field(default=None, init=False)

    @property
    def samples(self) -> Ids:
        """The sample ids (int64) of all rows, step after step."""
        # Not a cached_property: before Python 3.12 all items would wait for each other by one lock, which a fork may find taken.
        if self._samples is None:
            self._samples = self.find_samples()
        return self._samples

    @property
    def rows(self) -> int:
        """Rows of all steps together."""
        return self.steps * self.rows_per_step

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
