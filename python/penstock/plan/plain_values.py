"""Values that say by themselves what they are, as bytes: the same in every process, without addresses."""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import hashlib
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

import numpy as np

from penstock.core.functions.code_key import PLAIN

_PLAIN = frozenset(PLAIN)
#: Longer whole numbers are written in base 16, for which there is no limit.
_MOST_BITS = 2_000
_NUMBERS = frozenset({int, float, bool, type(None)})
#: Types whose `repr` says all.
_BY_REPR = (
    dt.date,
    dt.time,
    dt.timedelta,
    dt.tzinfo,
    decimal.Decimal,
    fractions.Fraction,
    uuid.UUID,
    np.dtype,
    range,
)
_SHOWN = 48
#: Larger arrays count by as many bytes, in pieces spread over them.
_ARRAY_BYTES = 16 << 20
_ARRAY_PIECES = 16


def is_plain(value: Any) -> bool:
    """Whether a value is a number, text, bytes or None, and of no class derived from these."""
    return type(value) in _PLAIN


def plain_bytes(value: Any) -> list[bytes] | None:
    """Bytes that distinguish a value from all others of its type; None where its type does not say how."""
    kind = type(value)
    if kind is int and _is_long(value):
        return [hex(value).encode()]
    if kind in _PLAIN or issubclass(kind, _BY_REPR) or _is_torch_setting(kind):
        return [repr(value).encode("utf-8", "surrogatepass")]
    if issubclass(kind, PurePath):
        return [str(value).encode("utf-8", "surrogatepass")]
    if issubclass(kind, Enum):
        return [qualified_name(value).encode(), repr(value.value).encode()]
    if kind is re.Pattern:
        return [repr((value.pattern, value.flags)).encode()]
    if issubclass(kind, (np.ndarray, np.generic)):
        return [*_of_array(np.asarray(value))]
    return None


def _of_array(array: np.ndarray[Any, Any]) -> Iterator[bytes]:
    yield f"{array.dtype.str}{array.shape}".encode()
    if array.dtype.kind not in "biufcSUMm":
        return
    if array.nbytes <= _ARRAY_BYTES:
        yield np.ascontiguousarray(array).tobytes()
        return
    step, piece = array.size // _ARRAY_PIECES, _ARRAY_BYTES // _ARRAY_PIECES // array.itemsize
    for number in range(_ARRAY_PIECES):
        yield np.asarray(array.flat[number * step : number * step + piece]).tobytes()


def _is_long(value: Any) -> bool:
    """Whether a value is a number of more digits than Python writes."""
    return type(value) is int and value.bit_length() > _MOST_BITS


def shown(value: Any) -> str:
    """A number, or a few of them, in clear; "" for all else, since text may be secret."""
    entries = value if type(value) in (tuple, list) else [value]
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return str(value.item())
    numbers = all(type(entry) in _NUMBERS and not _is_long(entry) for entry in entries[: _SHOWN // 2])
    text = repr(value) if numbers and len(entries) <= _SHOWN // 2 else ""
    return text if len(text) <= _SHOWN and len(entries) <= _SHOWN // 2 else ""


def digest_of(pieces: Iterable[bytes]) -> bytes:
    """16 bytes of all that is said; where one piece ends and the next begins counts."""
    state = hashlib.blake2b(digest_size=16)
    for part in pieces:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.digest()


def qualified_name(value: Any) -> str:
    """Module and name of a function or class, or of the type of anything else; a script's module is `__main__` in its children too."""
    named = value if isinstance(getattr(value, "__name__", None), str) else type(value)
    module = getattr(named, "__module__", None) or ""
    return f"{'__main__' if module == '__mp_main__' else module}.{getattr(named, '__qualname__', named.__name__)}"


def attributes(value: Any) -> dict[str, Any]:
    """What an object's own dict holds, whatever its class makes of attributes; of a torch module what it is made of, without hooks."""
    try:
        held = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return {}
    if held.keys() >= {"_parameters", "_modules", "training"}:
        held = {name: kept for name, kept in held.items() if name[0] != "_" and name != "training"} | held["_modules"]
    return {name: kept for name, kept in held.items() if name == "__wrapped__" or name[:2] != "__"}


def only_settings(held: Mapping[str, Any]) -> bool:
    """Whether all of these are plain values, sequences of them, things to be called, or empty: no state, no tables, no open objects."""
    return all(_is_setting(value) for value in held.values())


def _is_setting(value: Any) -> bool:
    if type(value) in (tuple, list):
        return all(map(_is_setting, value))
    if isinstance(value, dict | set | frozenset):
        return not value
    return plain_bytes(value) is not None if not callable(value) else bool(attributes(value))


def _is_torch_setting(kind: type) -> bool:
    """torch.float32 and the like, which are objects of compiled code, and no more than a name."""
    return kind.__module__ == "torch" and kind.__name__ in ("dtype", "device", "layout", "memory_format")
