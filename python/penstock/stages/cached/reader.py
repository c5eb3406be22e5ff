"""Takes rows out of a cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.core.columns.spec import Columns, Field, Spec
from penstock.runtime.budget import Budget
from penstock.runtime.stage import Item, SourceRows
from penstock.stages.cached.caches import CachedRows
from penstock.stages.read.reader import Needs


class CacheReader:
    """See `reader.Reader`. Of rows that are known to be there."""

    in_order = plans = False
    kind = "gather"

    def __init__(self, cached: CachedRows, allocate: Callable[[str, Field, int], Any], budget: Budget) -> None:
        self.cached, self._allocate, self._budget = cached, allocate, budget
        self.threads = min(2, budget.cpus)

    @property
    def spec(self) -> Spec:
        """The columns that are kept."""
        return self.cached.rows.spec

    def plan(self, item: Item, rows: SourceRows) -> tuple[Needs, None]:
        """Nothing but the columns."""
        return Needs(0, self.cached.rows.bytes_of(rows.samples)), None

    def open(self, item: Item, rows: SourceRows, plan: None) -> None:
        """Nothing is opened."""

    def read(self, rows: SourceRows, opened: None) -> None:
        """Nothing is read."""

    def columns(self, item: Item, rows: SourceRows, held: None) -> Columns:
        """Copies the rows."""
        return self.cached.rows.get(rows.samples, self._allocate, self._budget.cpus)
