"""The categories of a column: pandas' Categorical, Polars' Enum, Arrow's dictionary. Files may hold them part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.core.errors import PlanError
from penstock.core.messages import quoted

#: Categories that a message lists.
_LISTED = 4
#: Days since 1970, and seconds of a day, are numbers of so many bits in Arrow.
_DAYS_BITS = 32


@dataclass(frozen=True)
class Categories:
    """The categories of a part of a column, each once and in order; `where` is the part, for messages."""

    values: tuple[Any, ...]
    is_ordered: bool
    where: str

    @staticmethod
    def of(dictionary: pa.DictionaryArray, where: str) -> Categories:
        """Those of a dictionary."""
        values = dictionary.dictionary.drop_null()
        if pa.types.is_temporal(values.type):  # as columns have them: numbers
            values = values.cast(pa.int32() if values.type.bit_width == _DAYS_BITS else pa.int64())
        values = dict.fromkeys(values.to_pylist())
        return Categories(tuple(values), bool(dictionary.type.ordered), where)

    def __str__(self) -> str:
        more = ", …" if len(self.values) > _LISTED else ""
        return f"[{', '.join(map(quoted, self.values[:_LISTED]))}{more}]"


def has_categories(kinds: Sequence[pa.DataType], paths: Callable[[int], str]) -> bool:
    """Whether a column has categories, by its type in each file; PlanError where it has in some of them alone."""
    found = [bool(pa.types.is_dictionary(kind)) for kind in kinds]
    if any(found) and not all(found):
        plain, other = paths(found.index(False)), paths(found.index(True))
        raise PlanError(f"{plain} holds plain values, and {other} categories")
    return any(found)


def joined(parts: Iterable[Categories]) -> tuple[Any, ...]:
    """The categories of all parts: those of the first, then what others have besides, in their order. PlanError for ordered ones that differ: no order would be theirs."""
    first: Categories | None = None
    found: dict[Any, None] = {}
    for part in parts:
        first = first or part
        if (first.is_ordered or part.is_ordered) and part.values != first.values:
            raise PlanError(
                f"its categories are ordered, and differ: {first.where} has {len(first.values):,}, {first}, and {part.where} has {len(part.values):,}, {part}"
            )
        found |= dict.fromkeys(part.values)
    return tuple(found)
