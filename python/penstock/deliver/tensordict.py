"""Batches as TensorDicts. The only file that imports tensordict."""

from __future__ import annotations

import importlib
from typing import Any

from penstock.core.errors import PlanError
from penstock.core.installing import pip_install

try:
    tensordict: Any = importlib.import_module("tensordict")  # untyped
except ImportError as missing:
    raise PlanError(
        f"structure='tensordict': tensordict cannot be imported ({missing}); {pip_install('tensordict')}"
    ) from missing


def tensordict_of(columns: dict[str, Any]) -> Any:
    """A TensorDict of a batch's tensors, sharing their memory; lists of text become a NonTensorStack."""
    rows = None
    for name, column in columns.items():
        if isinstance(column, list) and column and isinstance(column[0], str | bytes):
            columns = {**columns, name: tensordict.NonTensorStack.from_list(column)}
        elif not hasattr(column, "data_ptr"):
            raise PlanError(
                f"structure='tensordict': column {name!r} is of {type(column).__module__}.{type(column).__name__}, not a tensor; use to='torch', and for "
                f"text convert={{{name!r}: 'list'}}, for ragged numbers 'nested', or leave it out with drop({name!r})"
            )
        rows = len(column) if isinstance(column, list) else column.size(0)
    return tensordict.TensorDict(columns, batch_size=[rows or 0])
