"""A snapshot of plain values, which a file holds: of any process, and perhaps of another version or by another program."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from itertools import islice
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from penstock.core.errors import DataError
from penstock.observe.snapshot import Snapshot

FiguresT = TypeVar("FiguresT")
#: Of a tuple of figures, and letters of a text; what is beyond is left out.
_MOST, _LONGEST = 2_000, 4_000
#: A greater number is no figure; what is no number is not less either.
MOST = 1e300


def snapshot_of(values: Any) -> Snapshot:
    """What `Snapshot.as_dict` gave, as a snapshot: snapshot_of({"samples": 3}).samples == 3.

    Figures that are missing have their defaults, and so have those that are null; those that this version does not know are left out. Raises DataError for what no snapshot has.
    """
    if not isinstance(values, Mapping):
        raise DataError("is no snapshot")
    return _of(Snapshot, values, "")


def _of(kind: type[FiguresT], values: Any, where: str) -> FiguresT:
    if not isinstance(values, Mapping):
        raise DataError(f"{where or 'it'} is no group of figures")
    found = {}
    for field, hint, has_default in _fields_of(kind):  # type: ignore[arg-type]  # a class is hashable
        value = values.get(name := field.removesuffix("_"))
        if value is None and (has_default or name not in values):
            if not has_default:
                raise DataError(f"{where}{name} is missing")
            continue
        found[field] = _value(hint, value, f"{where}{name}")
    return kind(**found)


@cache
def _fields_of(kind: Any) -> list[tuple[str, Any, bool]]:
    hints = get_type_hints(kind)
    return [
        (one.name, hints[one.name], one.default is not MISSING or one.default_factory is not MISSING)
        for one in fields(kind)
    ]


def _value(hint: Any, value: Any, where: str) -> Any:
    if is_dataclass(hint):
        return _of(hint, value, f"{where}.")  # type: ignore[arg-type]  # a class
    if get_origin(hint) is types.UnionType:
        return None if value is None else _value(get_args(hint)[0], value, where)
    if hint in (int, float):
        return _number(hint, value, where)
    if hint is str:
        if not isinstance(value, str):
            raise DataError(f"{where} is no text")
        return value[:_LONGEST]
    if get_origin(hint) is tuple:
        if not isinstance(value, (list, tuple)):
            raise DataError(f"{where} is no list")
        return tuple(_value(get_args(hint)[0], one, f"{where}[{place}]") for place, one in enumerate(value[:_MOST]))
    if get_origin(hint) is dict:
        if not isinstance(value, Mapping):
            raise DataError(f"{where} is no group of figures")
        kind, shown = get_args(hint)[1], islice(value.items(), _MOST)
        return {str(name)[:_LONGEST]: _value(kind, one, f"{where}[{name!r:.80}]") for name, one in shown}
    if not isinstance(value, hint):
        raise DataError(f"{where} is neither true nor false")
    return value


def _number(kind: Any, value: Any, where: str) -> Any:
    if value is None:  # what was no finite number, such as a rate over no time
        return kind(0)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= MOST:
        raise DataError(f"{where} is no number")
    return kind(value)
