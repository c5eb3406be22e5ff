"""Hashes of values: the same on every machine, and for equal values of a column, so that distinct ones can be counted without holding them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core import kernels
from penstock.core.columns.spec import is_bytes, is_list, is_text

Hashes = npt.NDArray[np.uint64]

#: Hashes have so many bits.
BITS = 62
_MISSING = 0x1B873593
_FACTOR, _START = np.uint64(0xD1342543DE82EF95), np.uint64(0x9E3779B97F4A7C15)


def _text_program() -> Any:
    step = {"step": "lookup", "texts": [], "unknown": (0, 1 << BITS), "missing": _MISSING}
    chain = {"name": "value", "inputs": [0], "pairs": [], "array": 0, "offset": 0, "width": 1, "steps": [step]}
    return kernels.TableProgram(["string"], [chain], [("int64", 1)])


def hashes_of(column: Any) -> Hashes | None:
    """Of every row; what is missing has one, too. None for what cannot be compared: lists of lists."""
    if isinstance(column, pa.Array):
        return _of_arrow(column)
    values = np.asarray(column)
    if values.ndim == 1:
        return _of_numbers(bits_of(values))
    ends = np.arange(len(values) + 1) * (values[0].size if len(values) else 0)
    return _of_runs(_of_numbers(bits_of(values.reshape(-1))), ends)


def _of_arrow(column: pa.Array) -> Hashes | None:
    if is_text(column.type) or is_bytes(column.type):
        return _of_texts(column)
    if is_list(column.type):
        missing, lists = np.asarray(column.is_null()), column.cast(pa.large_list(column.type.value_type))
        inner = hashes_of(lists.flatten()) if not is_list(column.type.value_type) else None
        if inner is None:
            return None
        lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
        found = _of_runs(inner, np.concatenate([[0], np.cumsum(lengths)]))
        found[missing] = _MISSING
        return found
    nulls = None
    if column.null_count:
        nulls = np.asarray(column.is_null())
        column = column.fill_null(False if pa.types.is_boolean(column.type) else 0)
    found = _of_numbers(bits_of(column.to_numpy(zero_copy_only=False)))
    if nulls is not None:
        found[nulls] = _MISSING
    return found


def bits_of(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Whole numbers as they are, floats by their bits: 0.0 and -0.0 are one, and all that is NaN."""
    if values.dtype.kind != "f":
        return np.ascontiguousarray(values).view(np.int64) if values.dtype == np.uint64 else values.astype(np.int64)
    floats = values.astype(np.float64) + 0.0
    floats[np.isnan(floats)] = np.nan
    return floats.view(np.int64)


def _of_numbers(bits: npt.NDArray[np.int64]) -> Hashes:
    found = mixed(np.ascontiguousarray(bits).view(np.uint64), _START)
    return mixed(found, _START) >> np.uint64(64 - BITS)


def _of_texts(column: pa.Array) -> Hashes:
    large = column if column.type in (pa.large_string(), pa.large_binary()) else column.cast(pa.large_binary())
    _, edges, data = large.buffers()
    places = np.frombuffer(edges or bytes(8), np.int64)[large.offset : large.offset + len(large) + 1]
    missing = np.asarray(large.is_null()) if large.null_count else None
    out = np.empty(len(large), np.int64)
    _TEXTS.run([(places, np.frombuffer(data or b"", np.uint8), missing)], [out], 1)
    return out.view(np.uint64)


def _of_runs(values: Hashes, ends: npt.NDArray[Any]) -> Hashes:
    """Of runs of values, by what these are and where in their run."""
    places = np.arange(len(values), dtype=np.uint64) - np.repeat(ends[:-1], np.diff(ends)).astype(np.uint64)
    summed = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed(values, places), dtype=np.uint64)])
    return mixed(summed[ends[1:]] - summed[ends[:-1]], np.diff(ends).astype(np.uint64))


def mixed(first: Hashes, second: Hashes | np.uint64) -> Hashes:
    """One hash of two, of which the order matters."""
    found = first * _FACTOR + second
    found ^= found >> np.uint64(32)
    found *= _FACTOR
    found ^= found >> np.uint64(29)
    return found


_TEXTS = _text_program()


class Smallest:
    """The smallest hashes with how often each came: of all values, if these are no more than `limit`; else a fair part of them.

    What is held depends on the values alone: it is the same for any blocks, in any order.
    """

    def __init__(self, limit: int, bits: int = BITS) -> None:
        self._limit, self._bits, self._bound = limit, bits, np.uint64((1 << bits) - 1)
        self.hashes, self.counts = np.zeros(0, np.uint64), np.zeros(0, np.int64)
        self._pending = list[Hashes]()
        self._waiting = 0

    def add(self, hashes: Hashes) -> None:
        """Takes the hashes of some rows."""
        some = hashes if len(self.hashes) < self._limit else hashes[hashes <= self._bound]
        self._pending.append(some)
        self._waiting += len(some)
        if self._waiting > max(1 << 16, len(self.hashes) // 4):
            self._settle()

    def _settle(self) -> None:
        if not self._waiting:
            return
        found, counts = np.unique(np.concatenate(self._pending), return_counts=True)
        self._pending, self._waiting = [], 0
        both = np.concatenate([self.hashes, found])
        order = np.argsort(both, kind="stable")
        both, weights = both[order], np.concatenate([self.counts, counts])[order]
        first = np.flatnonzero(np.concatenate([[True], both[1:] != both[:-1]]))
        hashes, counts = both[first], np.add.reduceat(weights, first)
        # One more than the limit is held, which says where the part ends.
        self.hashes, self.counts = hashes[: self._limit + 1], counts[: self._limit + 1]
        if len(self.hashes) > self._limit:
            self._bound = self.hashes[-1]

    @property
    def is_exact(self) -> bool:
        """Whether all values are held."""
        self._settle()
        return len(self.hashes) <= self._limit

    @property
    def distinct(self) -> int:
        """How many values there are: exact, or within 1 / sqrt(limit) of it for two in three columns."""
        if self.is_exact:
            return len(self.hashes)
        return round(self._limit * self._times)

    @property
    def repeats(self) -> int:
        """How many rows have a value that another row had before; by the part that is held."""
        if self.is_exact:
            return int(self.counts.sum()) - len(self.hashes)
        return round((int(self.counts[: self._limit].sum()) - self._limit) * self._times)

    @property
    def _times(self) -> float:
        """All values for one that is held."""
        return (1 << self._bits) / (float(self._bound) + 1)
