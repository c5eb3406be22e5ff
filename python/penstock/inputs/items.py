"""Python items to columns: what map-style datasets and generators give, one item a row or whole batches.

| item                      | columns                                                    |
| ------------------------- | ---------------------------------------------------------- |
| dict                      | one a key; inner dicts with dotted names ("box.left")      |
| named tuple               | one a name                                                 |
| tuple, list               | "0", "1", …, or the names given as columns=("image", …)    |
| anything else             | "data"                                                     |

Values are numbers, text, bytes, or what NumPy takes for an array of numbers: arrays, nested lists, torch tensors on the
CPU, PIL images (uint8, height × width × channels).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from penstock.core.columns.spec import Columns, Field, Spec
from penstock.core.errors import PlanError, RowError
from penstock.core.messages import quoted
from penstock.core.verbs.options import Asked, Column
from penstock.inputs.item_values import REFUSALS, ItemColumn, field_of_rows, field_of_value, inner_axes, join_values
from penstock.source.protocol import Allocate
from penstock.source.selection import Selection

#: Seconds of work, and rows, that are made together at most.
_TOGETHER_S, _TOGETHER_ROWS = 0.05, 4096
#: What a text, bytes or a list may have, for sizes of batches.
_WORD_BYTES = 64


@dataclass(frozen=True)
class Items:
    """How items become columns, learnt from the first item.

    take: the values of each feature, by its name, of a list of items; RowError for the first item of another form.
    """

    columns: tuple[ItemColumn, ...]
    take: Callable[[Sequence[Any]], Mapping[str, Sequence[Any]]]

    @property
    def description(self) -> str:
        """The columns in words, for digests."""
        return ", ".join(f"{column.name}={column.feature}:{column.field}" for column in self.columns)

    @property
    def row_bytes(self) -> int:
        """About how many bytes a row has."""
        return max(1, sum(field.row_bytes or _WORD_BYTES for field in self.spec.values()))

    @property
    def spec(self) -> Spec:
        """The columns' fields."""
        return {column.name: column.field for column in self.columns}

    def stack(self, items: Sequence[Any], allocate: Allocate) -> Columns:
        """One row an item; RowError for the first that is not as the first item of all was."""
        return self.join(self.take(items), len(items), allocate)

    def join(self, values: Mapping[str, Any], rows: int, allocate: Allocate) -> Columns:
        """Columns of the values of each feature, `rows` entries each."""
        return {column.name: join_values(values[column.feature], rows, column, allocate) for column in self.columns}


def learn_items(first: Any, asked: Asked, where: str) -> Items:
    """The columns of items like `first`; PlanError for columns that it does not have and values that no batch can hold."""
    names = _names_of(first, asked)
    take = _taker(first, names)
    features = {name: values[0] for name, values in take([first]).items()}
    return Items(_choose(features, None if names is not None else asked, field_of_value, where), take)


def learn_columns(first: Mapping[str, Any], asked: Asked, where: str) -> Items:
    """The same for whole columns, as a `__getitems__` may give them; `first` holds one row."""
    return Items(_choose(first, asked, field_of_rows, where), partial(_same_for_all, names=tuple(map(str, first))))


def _choose(
    features: Mapping[str, Any], asked: Asked, field_of: Callable[[Any], Field], where: str
) -> tuple[ItemColumn, ...]:
    if not features:
        raise PlanError(f"{where}: the first item is empty; an item needs at least one value")
    chosen = Selection(asked).choose(features, where)
    return tuple(_column(name, column, features, field_of, where) for name, column in chosen.items())


def _column(
    name: str, column: Column, features: Mapping[str, Any], field_of: Callable[[Any], Field], where: str
) -> ItemColumn:
    try:
        field = field_of(features[column.feature])
    except REFUSALS as error:
        raise PlanError(
            f"{where}: {quoted(column.feature)} of the first item cannot be held in a batch: {error}; return numbers, arrays "
            f"of numbers, text or bytes"
        ) from None
    asked = column.field(field)
    if None in asked.shape:
        _check_ragged(column.feature, asked, field, where)
    return ItemColumn(name, column.feature, asked, asked=column.dtype is not None)


def _check_ragged(feature: str, asked: Field, found: Field, where: str) -> None:
    try:
        inner = inner_axes(asked)
    except ValueError as error:
        raise PlanError(f"{where}: {quoted(feature)} cannot be a column: {error}; pad the values") from None
    if found.shape != (0,) and (not found.shape or found.shape[1:] != inner):
        raise PlanError(
            f"{where}: {quoted(feature)} of the first item is {found}, and {asked} is asked for; make one like the other"
        )


def rows_together(took_s: float) -> int:
    """How many rows are worth making together, by the seconds that one takes: many live objects slow Python down."""
    return max(1, min(_TOGETHER_ROWS, int(_TOGETHER_S / max(took_s, 1e-9))))


# The form of items


def _names_of(first: Any, asked: Asked) -> tuple[str, ...] | None:
    """Names for the places of a tuple, where `columns` gives them."""
    if not isinstance(first, (tuple, list)) or hasattr(first, "_fields"):
        return None
    if asked is None or isinstance(asked, Mapping):
        return None
    if len(asked) != len(first):
        raise PlanError(
            f"columns={quoted(tuple(asked))} names {len(asked)} values, and items are {type(first).__name__}s of {len(first)}; "
            f"name every place, or choose with columns={{'image': '0'}}"
        )
    return tuple(Selection(asked).columns())


def _taker(first: Any, names: tuple[str, ...] | None) -> Callable[[Sequence[Any]], Mapping[str, Sequence[Any]]]:
    if isinstance(first, Mapping):
        if any(isinstance(value, Mapping) for value in first.values()):
            return partial(_by_key_of_flat, first=dict.fromkeys(_flat(first)))
        return partial(_by_key, first=dict.fromkeys(first))
    if isinstance(first, (tuple, list)):
        places = names or getattr(first, "_fields", None) or tuple(map(str, range(len(first))))
        return partial(_by_place, places=tuple(places))
    return partial(_same_for_all, names=("data",))


def _same_for_all(items: Sequence[Any], names: tuple[str, ...]) -> dict[str, Sequence[Any]]:
    return dict.fromkeys(names, items)


def _flat(item: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(item, Mapping):
        return {"": item}
    flat: dict[str, Any] = {}
    for key, value in item.items():
        inner = _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
        before = len(flat)
        flat.update(inner)
        if len(flat) < before + len(inner):
            both = next(name for name in inner if name in [*flat][:before])
            raise PlanError(
                f"an item has two values for the column {quoted(both)}: one in a dict in it, and one by that name; rename one"
            )
    return flat


def _by_key_of_flat(items: Sequence[Any], first: dict[Any, None]) -> dict[str, list[Any]]:
    return _by_key([_flat(item) for item in items], first)


def _by_key(items: Sequence[Any], first: dict[Any, None]) -> dict[str, list[Any]]:
    keys = first.keys()
    for row, item in enumerate(items):
        if not isinstance(item, Mapping) or item.keys() != keys:
            found = f"the keys {sorted(map(str, item))}" if isinstance(item, Mapping) else f"a {type(item).__name__}"
            raise RowError(
                row, f"an item with {found}", f"every item must have the first one's: {list(map(str, keys))}"
            )
    return {str(key): [item[key] for item in items] for key in keys}


def _by_place(items: Sequence[Any], places: tuple[str, ...]) -> dict[str, Sequence[Any]]:
    for row, item in enumerate(items):
        if not isinstance(item, (tuple, list)) or len(item) != len(places):
            found = f"of {len(item)}" if isinstance(item, (tuple, list)) else ""
            raise RowError(
                row,
                f"an item that is a {type(item).__name__} {found}".rstrip(),
                f"the first one has {len(places)} values",
            )
    return dict(zip(places, zip(*items, strict=True), strict=True))
