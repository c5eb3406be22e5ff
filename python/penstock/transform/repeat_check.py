"""Whether a function returns the same when it is called again: its first rows are."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.cancel import StoppedError
from penstock.core.columns.spec import Columns
from penstock.core.draw_keys import DrawKeys
from penstock.core.messages import quoted
from penstock.core.warnings import warn

#: A batch that took longer, or is larger, is not made again, but so many of its rows are, twice.
_LONG_S, _LARGE_BYTES, _FEW_ROWS = 0.25, 16 << 20, 2
#: Sums of the same numbers may differ so much, by where they lie in memory.
_TOLERANCE = 1e-4

#: Functions of this process that returned the same.
_repeatable: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

#: A function on columns and keys: what it returned.
Make = Callable[[Mapping[str, Any], DrawKeys], Any]


class Repeats:
    """Calls a function's first batch, or the first rows of it, a second time, and warns where it returns something else.

    What the first call changes in place is copied before. A function that was called twice and returned the same is not called twice again.
    by_rows: whether it is called with one row at a time. tell: gets what is wrong; None for a warning.
    """

    def __init__(self, function: Any, name: str, *, by_rows: bool, tell: Callable[[str], None] | None = None) -> None:
        self._function, self._name, self._by_rows = function, name, by_rows
        self._tell = tell or self.warn
        self._is_due, self._lock = _repeatable.get(id(function)) is not function, threading.Lock()

    def call(self, make: Make, columns: Mapping[str, Any], keys: DrawKeys) -> Any:
        """What `make` returns, or raises."""
        if not self.take(keys):
            return make(columns, keys)
        kept, began_at = copied(_rows(columns, _FEW_ROWS) if self._by_rows else columns), time.perf_counter()
        try:
            made = make(columns, keys)
        except BaseException:
            self.leave()
            raise
        self._compare(make, made, kept, keys, took_s=time.perf_counter() - began_at)
        return made

    def take(self, keys: DrawKeys) -> bool:
        """Whether rows are those that are made twice, by whoever asks."""
        if not self._is_due or not len(keys):
            return False
        with self._lock:
            is_due, self._is_due = self._is_due, False
            return is_due

    def leave(self) -> None:
        """They failed the first time: others are taken."""
        self._is_due = True

    def remember(self) -> None:
        """The function returned the same."""
        with suppress(TypeError):  # some cannot be referred to weakly
            _repeatable[id(self._function)] = self._function

    def _compare(self, make: Make, made: Any, kept: Columns, keys: DrawKeys, *, took_s: float) -> None:
        few, is_short = keys.part(0, _FEW_ROWS), took_s <= _LONG_S and _bytes_of(made) <= _LARGE_BYTES
        try:
            if self._by_rows:
                first, again = _rows(made, _FEW_ROWS), make(kept, few)
            elif is_short:
                first, again = made, make(kept, keys)
            else:
                kept = copied(_rows(kept, _FEW_ROWS))
                first, again = make(copied(kept), few), make(kept, few)
        except StoppedError:
            raise
        except Exception as error:
            if not self._by_rows and not is_short:
                return  # it may be one for whole batches only
            self._tell(f"raised {type(error).__name__}")
            return
        found = difference(first, again)
        if found is not None:
            self._tell(f"returned something else{found}")
        else:
            self.remember()

    def warn(self, what: str) -> None:
        """Says what is wrong, and what to do."""
        warn(
            f"penstock: {self._name} {what} when it was called again with the same rows, so its batches do not repeat: not in another run, "
            f"after resuming, by batch_at or on another number of ranks. If it draws random numbers, take them from a parameter `rng`, or from generators that "
            f"are seeded with it; if it counts or keeps something from call to call, compute that from the row. If this is meant: "
            f"warnings.filterwarnings('ignore', message='penstock: .* when it was called again')"
        )


def copied(columns: Mapping[str, Any]) -> Columns:
    """Columns that nobody else changes."""
    return {name: column.copy() if isinstance(column, np.ndarray) else column for name, column in columns.items()}


def _bytes_of(made: Any) -> int:
    """Bytes of columns, as far as they are arrays."""
    return sum(int(getattr(column, "nbytes", 0)) for column in made.values()) if isinstance(made, Mapping) else 0


def _rows(made: Any, rows: int) -> Any:
    """The first rows of columns, or of a list of rows."""
    return {name: column[:rows] for name, column in made.items()} if isinstance(made, Mapping) else made[:rows]


def difference(one: Any, other: Any) -> str | None:
    """Where two results differ, for messages; None where they are the same. NaN is NaN, and sums may differ in their last digits."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        if [*one] != [*other]:
            return f" (columns {', '.join(map(str, other))} after {', '.join(map(str, one))})"
        return next((f" in {quoted(name)}" for name in one if not _is_same(one[name], other[name])), None)
    if _is_rows(one) and _is_rows(other) and len(one) == len(other):
        return next((found for pair in zip(one, other, strict=True) if (found := difference(*pair)) is not None), None)
    return None if _is_same(one, other) else ""


def _is_rows(made: Any) -> bool:
    return isinstance(made, list) and all(isinstance(row, Mapping) for row in made)


def _is_same(one: Any, other: Any) -> bool:
    """Whether values are the same, as far as is known of their types."""
    if one is other:
        return True
    if isinstance(one, (str, bytes, int, type(None))):
        return bool(type(one) is type(other) and one == other)
    if isinstance(one, Mapping):
        return isinstance(other, Mapping) and difference(one, other) is None
    if isinstance(one, (pa.Array, pa.ChunkedArray)):
        is_alike = type(one) is type(other) and one.type == other.type
        return is_alike and (one.equals(other) or _is_same(one.to_pylist(), other.to_pylist()))
    if isinstance(one, Sequence):
        is_alike = isinstance(other, Sequence) and len(one) == len(other)
        return is_alike and all(map(_is_same, one, other))
    try:
        return _are_same_arrays(np.asarray(one), np.asarray(other))
    except Exception:  # on a device, or of no kind that can be compared
        return True


def _are_same_arrays(one: Any, other: Any) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.kind in "fc":
        top = float(np.nanmax(np.abs(one), initial=0.0, where=np.isfinite(one)))
        return bool(np.allclose(one, other, rtol=_TOLERANCE, atol=_TOLERANCE * min(top, 1.0), equal_nan=True))
    if one.dtype.kind == "O":
        return one.ndim == 0 or all(map(_is_same, one.ravel().tolist(), other.ravel().tolist()))
    return bool(one.tobytes() == other.tobytes())
