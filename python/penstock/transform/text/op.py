"""What an op on text is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from penstock.core.columns.spec import Columns, Spec
from penstock.core.draw_keys import DrawKeys
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.transform.family import Op, Workspace

#: What an op does with a batch: the columns that it makes, of those that there are.
Step: TypeAlias = Callable[[Columns, DrawKeys, Workspace], Columns]


class TextOp(Op):
    """An op on a column of text. `output` says what comes out, `step` does it."""

    family = "text"

    def step(self, name: str, given: Spec, number: int) -> Step:
        """What it does with batches of such columns. name: the chain's column. number: by which it draws."""
        raise NotImplementedError

    def check_text(self, name: str, given: Spec) -> None:
        """PlanError where a column is not text; nothing of one that is not known yet."""
        if name in given and (given[name].dtype != "string" or given[name].shape):
            raise PlanError(
                f"transform: {type(self).__name__} on column {quoted(name)}, which is {given[name]}; give it text"
            )


def check_new(op: str, names: Sequence[str], given: Spec) -> None:
    """PlanError for a column that an op makes and that there is already. op: as messages name it."""
    for name in names:
        if name in given:
            raise PlanError(f"transform: {op} makes column {quoted(name)}, which there is already; say into=")
