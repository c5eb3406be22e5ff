"""One call of a user's function, here: what it returned, as columns."""

from __future__ import annotations

from typing import Protocol

from penstock.batch.stack import check_batch, stack_rows
from penstock.core.spec import Columns, Ids
from penstock.transform.function import BatchFunction, RowFunction


class Call(Protocol):
    """A call of a user's function, wherever it runs."""

    def __call__(self, columns: Columns, keys: Ids, key: int) -> Columns:
        """The columns that the function makes of these. keys: the rows' numbers for random draws, key: the stage's."""


class CallHere:
    """Calls a function on this thread."""

    def __init__(self, function: BatchFunction) -> None:
        self._function = function

    def __call__(self, columns: Columns, keys: Ids, key: int) -> Columns:
        """What it returned; PlanError if that is no batch of as many rows."""
        made, name = self._function(columns, keys, key), self._function.name
        return stack_rows(made, name) if isinstance(self._function, RowFunction) else check_batch(made, len(keys), name)
