"""How users' functions get text: as Arrow arrays, or as lists of str and of bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from penstock.core.columns.spec import is_bytes, is_list, is_text
from penstock.core.errors import PenstockError, PlanError
from penstock.core.messages import quoted

#: What functions raise that get an Arrow array where they expect a list of str.
_MISTAKEN = (TypeError, ValueError, AttributeError)


def with_text(columns: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The columns with text and bytes, also those in lists, as lists where `text` is "list"; None stands for null."""
    if text != "list":
        return dict(columns)
    return {name: column.to_pylist() if _is_text(column) else column for name, column in columns.items()}


def _is_text(column: Any) -> bool:
    kind = column.type if isinstance(column, pa.Array) else None
    while kind is not None and is_list(kind):
        kind = kind.value_type
    return kind is not None and (is_text(kind) or is_bytes(kind))


def called(call: Callable[[dict[str, Any]], Any], columns: Mapping[str, Any], text: str, where: str) -> Any:
    """What a function returned. PlanError where it fails on Arrow arrays of text, and does not on lists."""
    try:
        return call(with_text(columns, text))
    except _MISTAKEN as error:
        names = [name for name, column in columns.items() if _is_text(column)]
        if text == "list" or not names or isinstance(error, PenstockError) or not _works(call, columns):
            raise
        listed = ", ".join(map(quoted, names))
        verb = where.partition("(")[0]
        raise PlanError(
            f"{where}: text comes as Arrow arrays ({listed}), and the function takes lists of str; write {verb}(…, text='list')"
        ) from error


def _works(call: Callable[[dict[str, Any]], Any], columns: Mapping[str, Any]) -> bool:
    try:
        call(with_text(columns, "list"))
    except Exception:
        return False
    return True
