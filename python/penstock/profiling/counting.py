"""How often each value comes: exactly while there are few, else the most frequent ones, which fill the fullest of many buckets."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.profiling.hashes import Hashes

#: Different values that are counted one by one, and bytes of them.
MOST_VALUES, MOST_BYTES = 1 << 16, 64 << 20
#: Buckets of the others, how many of these are looked into, and values in them that are counted.
_BUCKETS, _LOOKED_INTO, _MOST_INSIDE = 1 << 14, 32, 1 << 18
#: How far above the mean a bucket is looked into, in standard deviations of buckets that are filled by chance.
_STANDS_OUT = 6


class Sums:
    """Values with their counts, until there are more than `most` of them, or `most_bytes`: then nothing is held."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self.values: pa.Array | None = None
        self.counts = np.zeros(0, np.int64)
        self.is_full = False
        #: What was held when there were too many.
        self.given_up = list[pa.Array]()
        self._parts = list[tuple[pa.Array, npt.NDArray[np.int64]]]()

    def add(self, values: pa.Array) -> None:
        """Takes the values of some rows, of which none is missing."""
        if self.is_full or not len(values):
            return
        found = pc.value_counts(values)
        self._parts.append((found.field(0), found.field(1).to_numpy()))
        if self._is_too_much(found.field(0)):
            self._give_up()
        elif sum(len(part) for part, _ in self._parts) > max(self._most, 2 * len(self.counts)):
            self.settle()

    def _is_too_much(self, values: pa.Array) -> bool:
        return len(values) > self._most or _bytes_of(values) > self._most_bytes

    def _give_up(self) -> None:
        self.given_up = [*([] if self.values is None else [self.values]), *(part for part, _ in self._parts)]
        self.is_full, self.values, self._parts = True, None, []

    def settle(self) -> None:
        """Adds up; then `values` ascend."""
        if self.is_full or not self._parts:
            return
        given = self._parts if self.values is None else [(self.values, self.counts), *self._parts]
        values = pa.chunked_array([part for part, _ in given])
        counts = np.concatenate([part for _, part in given])
        table = pa.table({"value": values, "count": counts}).group_by("value").aggregate([("count", "sum")])
        order = pc.sort_indices(table, sort_keys=[("value", "ascending")])
        table = table.take(order)
        self._parts = []
        self.values = _one(table.column("value"))
        self.counts = np.asarray(table.column("count_sum").to_numpy())
        if self._is_too_much(self.values):
            self._give_up()


def _bytes_of(values: pa.Array) -> int:
    is_wide = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    return int(pc.sum(pc.binary_length(values)).as_py() or 0) if is_wide else 8 * len(values)


def _one(column: pa.ChunkedArray) -> pa.Array:
    found: Any = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


class ValueCounts:
    """The values of a column. `add` in the first pass, and if `needs_pass`, `add_again` in the second."""

    def __init__(self) -> None:
        self._all = Sums(MOST_VALUES, MOST_BYTES)
        self._buckets = np.zeros(_BUCKETS, np.int64)
        self._wanted: npt.NDArray[np.bool_] | None = None
        self._inside = Sums(_MOST_INSIDE, MOST_BYTES)

    def add(self, values: pa.Array, hashes: Hashes | None) -> None:
        """Takes values, of which none is missing, and their hashes."""
        self._all.add(values)
        if hashes is not None:
            self._buckets += np.bincount(hashes & np.uint64(_BUCKETS - 1), minlength=_BUCKETS)

    @property
    def is_full(self) -> bool:
        """Whether there are too many values to count each."""
        return self._all.is_full

    def take_given_up(self) -> list[pa.Array]:
        """The values that were held when they became too many; once."""
        found, self._all.given_up = self._all.given_up, []
        return found

    def end_pass(self) -> None:
        """What there is to look into in the second one."""
        self._all.settle()
        total = int(self._buckets.sum())
        if not self._all.is_full or not total:
            return
        mean = total / _BUCKETS
        fullest = np.argsort(-self._buckets, kind="stable")[:_LOOKED_INTO]
        fullest = fullest[self._buckets[fullest] > mean + _STANDS_OUT * mean**0.5 + 1]
        if len(fullest):
            self._wanted = np.zeros(_BUCKETS, np.bool_)
            self._wanted[fullest] = True

    @property
    def needs_pass(self) -> bool:
        """Whether some buckets are to be looked into."""
        return self._wanted is not None

    def add_again(self, values: pa.Array, hashes: Hashes) -> None:
        """Takes the same rows a second time."""
        if self._wanted is not None and not self._inside.is_full:
            self._inside.add(values.filter(pa.array(self._wanted[hashes & np.uint64(_BUCKETS - 1)])))

    @property
    def exact(self) -> tuple[pa.Array, npt.NDArray[np.int64]] | None:
        """All values, ascending, with their counts; None where they are too many."""
        self._all.settle()
        if self._all.is_full:
            return None
        return (pa.array([]) if self._all.values is None else self._all.values), self._all.counts

    def most_frequent(self, most: int) -> tuple[list[tuple[Any, int]], int | None]:
        """Values with their counts, the most frequent first, of equal ones the least; and a number that no other one exceeds, or None where all of them are there."""
        if (exact := self.exact) is not None:
            values, counts = exact
            found = _first(values, counts, most)
            return found, (None if len(counts) <= most else found[-1][1])
        others = self._buckets if self._wanted is None else self._buckets[~self._wanted]
        bound = int(others.max()) if len(others) else 0
        self._inside.settle()
        if self._wanted is None or self._inside.is_full or self._inside.values is None:
            return [], int(self._buckets.max())
        top = _first(self._inside.values, self._inside.counts, most)
        found = [(value, count) for value, count in top if count > bound]
        left = [count for _, count in top[len(found) :]] or [0]
        return found, max(bound, left[0])


def _first(values: pa.Array, counts: npt.NDArray[np.int64], most: int) -> list[tuple[Any, int]]:
    order = np.argsort(-counts, kind="stable")[:most]
    return list(zip(values.take(pa.array(order)).to_pylist(), counts[order].tolist(), strict=True))
