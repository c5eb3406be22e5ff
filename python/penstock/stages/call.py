"""Calls of a user's function, here: what it returned, checked, as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from penstock.batch.stack import check_batch, columns_of, mask_of, stack_rows
from penstock.core.columns.spec import Columns
from penstock.core.draw_keys import DrawKeys
from penstock.core.errors import PlanError
from penstock.stages.calls_together import calls_together
from penstock.transform.function import BatchFunction, RowFunction

#: Rows: their columns, and the numbers by which they draw.
Rows: TypeAlias = tuple[Columns, DrawKeys]

#: Batches that are with an async function at once; each has a thread that waits.
ASYNC_CALLS = 16

#: The column of a predicate's mask.
MASK = "mask"


class FunctionCalls(Protocol):
    """Calls of a user's function, wherever it runs."""

    def __call__(self, columns: Columns, keys: DrawKeys) -> Columns:
        """The columns that the function makes of these."""

    def many(self, calls: Sequence[Rows]) -> list[Columns]:
        """The same for several of these; the error of the first that fails."""


class CallHere:
    """Calls the function of `map` or `map_rows` on this thread."""

    def __init__(self, function: BatchFunction) -> None:
        self.function = function

    def __call__(self, columns: Columns, keys: DrawKeys) -> Columns:
        """What it returned; PlanError if that is no batch of as many rows."""
        made, name = self.function(columns, keys), self.function.name
        if isinstance(self.function, RowFunction):
            return stack_rows(made, name, columns)
        return check_batch(made, len(keys), name, columns)

    def many(self, calls: Sequence[Rows]) -> list[Columns]:
        """One after the other; several at once where they are awaited."""
        return calls_together(lambda one: self(*one), calls, ASYNC_CALLS if self.function.is_async else 1)


class MaskHere(CallHere):
    """Calls the function of `filter`."""

    def __call__(self, columns: Columns, keys: DrawKeys) -> Columns:
        """The mask that it returned, as a column; PlanError if it is none."""
        made = self.function(columns, keys)
        return {MASK: mask_of(made, len(keys), f"filter({self.function.name})")}


class AnyRowsHere(CallHere):
    """Calls the function of `flat_map`."""

    def __call__(self, columns: Columns, keys: DrawKeys) -> Columns:
        """What it returned, of any number of rows; PlanError if these are no columns."""
        made, where = self.function(columns, keys), f"flat_map({self.function.name})"
        if not isinstance(made, Mapping):
            raise PlanError(f"{where} returned {type(made).__name__}; it must return a dict of columns")
        columns = columns_of(made, where, columns)
        rows = {name: len(column) for name, column in columns.items()}
        if len({*rows.values()}) > 1:
            raise PlanError(f"{where} returned columns of different lengths: {rows}; return one entry a row in each")
        return columns


#: How the function of each verb is called.
CALLS: dict[str, type[CallHere]] = {
    "map": CallHere,
    "map_rows": CallHere,
    "filter": MaskHere,
    "flat_map": AnyRowsHere,
}
