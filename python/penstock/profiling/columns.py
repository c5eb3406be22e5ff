"""What is gathered of one column, by its type, and the facts that it comes to."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.columns.rows import spans_to_arrow
from penstock.core.columns.spec import Field, Spans, is_bytes, is_text
from penstock.profiling.counting import ValueCounts
from penstock.profiling.hashes import Hashes, Smallest, hashes_of
from penstock.profiling.images import Images, are_images
from penstock.profiling.numbers import FRACTIONS, IQR_TIMES, Counted, NumberFigures, bars_of, quantile

#: Different values that are told apart exactly; beyond that, their number is known to 1 in 256.
DISTINCT = 1 << 16
#: Values that a profile names, and those with counts that it keeps to be compared.
MOST_FREQUENT, KEPT = 10, 1000
#: Half the range of numbers that are so near each other that nothing is divided by it.
_LEAST_RANGE = 1e-290
#: Characters of a text that is named.
_LONGEST = 200


class SomeRows(Protocol):
    """Some rows of a dataset: columns by name, the rows' ids, and where a row lies."""

    @property
    def columns(self) -> Mapping[str, Any]: ...  # noqa: D102

    @property
    def ids(self) -> npt.NDArray[np.int64]: ...  # noqa: D102

    def place(self, row: int) -> tuple[str, int]:
        """In words, and the row's id in its source."""


class ColumnFigures:
    """One column of a dataset."""

    def __init__(self, name: str, field: Field, *, decodes: bool) -> None:
        self.name, self.field = name, field
        self.kind = _kind_of(field)
        self.rows = self.missing = self.empty = 0
        self.distinct, self.values = Smallest(DISTINCT), ValueCounts()
        self.numbers = NumberFigures() if self.kind in ("integer", "float", "bool", "vector") else None
        self.lengths = LengthFigures() if self.kind in ("text", "bytes", "list") else None
        self.bounds: tuple[int, int] | None = None
        self._images: Images | None = None
        self._decodes = decodes
        self.counted: Counted | None = None

    @property
    def has_values(self) -> bool:
        """Whether single values are counted."""
        return self.kind in ("integer", "float", "bool", "text")

    def add(self, block: SomeRows) -> Hashes | None:
        """Takes the column of a block, and gives a hash of each row."""
        column = plain(block.columns[self.name])
        hashes = hashes_of(column)
        there = _there(column)
        self.rows += len(there)
        self.missing += len(there) - int(np.count_nonzero(there))
        if hashes is not None:
            own = hashes if there.all() else hashes[there]
            if self.has_values:
                self._count(_comparable(column), own)
            elif self.kind == "bytes":
                self.distinct.add(own)
        if self.numbers is not None:
            self.numbers.add(floats_of(column))
        if self.kind == "integer":
            self._widen(column)
        if self.lengths is not None:
            self._measure(column, block)
        return hashes

    def _count(self, values: pa.Array, hashes: Hashes) -> None:
        """Different values are those that are counted; once they are too many for that, they are told by their hashes."""
        was_full = self.values.is_full
        self.values.add(values, hashes)
        if was_full:
            self.distinct.add(hashes)
        else:
            self._take_given_up()

    def _take_given_up(self) -> None:
        for values in self.values.take_given_up():
            if (hashes := hashes_of(values)) is not None:
                self.distinct.add(hashes)

    def _widen(self, column: Any) -> None:
        found = pc.min_max(column if isinstance(column, pa.Array) else pa.array(column))
        low, high = found["min"].as_py(), found["max"].as_py()
        if low is not None:
            self.bounds = (low, high) if self.bounds is None else (min(self.bounds[0], low), max(self.bounds[1], high))

    def _measure(self, column: pa.Array, block: SomeRows) -> None:
        assert self.lengths is not None
        lengths = lengths_of(column)
        self.lengths.add(lengths)
        self.empty += int(np.count_nonzero(lengths == 0))
        if self.kind != "bytes":
            return
        if self._images is None and self.rows == len(column) and are_images(column):
            self._images = Images(decodes=self._decodes)
        if self._images is not None:
            self._images.add(column, block.ids.tolist(), block.place)

    def end_pass(self) -> None:
        """After the first pass: what is known now, and what the second one is for."""
        self.values.end_pass()
        self._take_given_up()
        exact = self.values.exact if self.numbers is not None and self.kind != "vector" else None
        if exact is not None and self.numbers is not None and self.numbers.count:
            values, counts = exact
            self.counted = Counted(floats_of(values), counts)
        if self.numbers is not None and self.numbers.count and self.counted is None:
            self.numbers.plan()

    @property
    def needs_pass(self) -> bool:
        """Whether the second pass has anything to gather."""
        return self.values.needs_pass or (self.numbers is not None and self.numbers.count > 0 and self.counted is None)

    @property
    def varies(self) -> bool:
        """Whether it is numbers, and not all the same."""
        if self.numbers is None or self.kind == "vector":
            return False
        moments = self.numbers.moments
        return moments.count > 1 and _LEAST_RANGE < moments.greatest / 2 - moments.least / 2 < math.inf

    def add_again(self, column: Any) -> None:
        """Takes the column of a block in the second pass."""
        if self.values.needs_pass and (hashes := hashes_of(column)) is not None:
            self.values.add_again(_comparable(column), hashes[_there(column)])
        if self.numbers is not None and self.numbers.count and self.counted is None:
            self.numbers.add_again(finite_of(column))

    def facts(self) -> dict[str, Any]:
        """All that is known, as plain values."""
        found: dict[str, Any] = {
            "type": str(self.field.required),
            "kind": "image" if self._images is not None else self.kind,
            "rows": self.rows,
            "missing": self.missing,
        }
        if self.kind not in ("vector", "list"):
            found["distinct"] = self._distinct_facts()
        if self.numbers is not None:
            found["numbers"] = self._number_facts(self.numbers)
        if self.lengths is not None:
            found["empty"], found["lengths"] = self.empty, self.lengths.facts()
        if self.has_values:
            found["values"] = self._value_facts()
        if self._images is not None:
            found["images"] = self._images.facts
        return found

    def _distinct_facts(self) -> dict[str, Any]:
        if self.has_values and (exact := self.values.exact) is not None:
            return {"count": len(exact[1]), "exact": True}
        count = min(self.distinct.distinct, self.rows - self.missing)
        return {"count": count, "exact": self.distinct.is_exact}

    def _value_facts(self) -> dict[str, Any]:
        """The most frequent values, and of those that are no numbers more of them, to be compared."""
        most = MOST_FREQUENT if self.kind in ("integer", "float") else KEPT
        frequent, bound = self.values.most_frequent(most)
        return {
            "most_frequent": [[_named(value), count] for value, count in frequent],
            "all": bound is None,
            "others_at_most": bound,
        }

    def _number_facts(self, numbers: NumberFigures) -> dict[str, Any]:
        if numbers.count and self.counted is None:
            numbers.end()
        found = number_facts(numbers, self.counted or numbers, is_whole=self.kind in ("integer", "bool"))
        if self.bounds is not None and numbers.count:
            found["least"], found["greatest"] = self.bounds
        return found


class LengthFigures:
    """Lengths of texts, bytes or lists: few of them are different."""

    def __init__(self) -> None:
        self._counts = dict[int, int]()

    def add(self, lengths: npt.NDArray[np.int64]) -> None:
        """Takes those of some rows. Beyond 4,096, they are known to 1 in 2,048."""
        step = np.maximum(np.frexp(lengths.astype(np.float64))[1] - 12, 0)
        rounded = (lengths >> step) << step
        for length, count in zip(*(part.tolist() for part in np.unique(rounded, return_counts=True)), strict=True):
            self._counts[length] = self._counts.get(length, 0) + count

    def facts(self) -> dict[str, Any]:
        """As of numbers."""
        numbers = NumberFigures()
        values = np.array(sorted(self._counts), np.float64)
        counts = np.array([self._counts[length] for length in sorted(self._counts)], np.int64)
        if not len(values):
            return number_facts(numbers, numbers, is_whole=True)
        counted = Counted(values, counts)
        moments = numbers.moments
        whole = [*zip(sorted(self._counts), counts.tolist(), strict=True)]
        moments.count = counted.count
        moments.least, moments.greatest = float(values[0]), float(values[-1])
        moments.total = sum(length * count for length, count in whole) << 1074
        moments.squares = sum(length * length * count for length, count in whole) << 2148
        return number_facts(numbers, counted, is_whole=True)


def number_facts(numbers: NumberFigures, known: Any, *, is_whole: bool) -> dict[str, Any]:
    """Of numbers that were gathered. known: what has their quantiles and their distribution."""
    moments, count = numbers.moments, numbers.count
    found: dict[str, Any] = {
        "count": count,
        "infinite": numbers.infinite,
        "zeros": numbers.zeros,
        "negative": numbers.negative,
    }
    if not count:
        return found
    quantiles = {str(fraction): quantile(known, count, fraction) for fraction in FRACTIONS}
    low, high = quantiles["0.25"], quantiles["0.75"]
    fences = [low - IQR_TIMES * (high - low), high + IQR_TIMES * (high - low)]
    below, above = known.outside(*fences)
    edges = bars_of(moments.least, moments.greatest, is_whole=is_whole and isinstance(known, Counted))
    ends = known.up_to(edges)
    bars = np.diff(np.concatenate([[0], ends[1:]])) if len(edges) > 1 else ends
    points, cumulated = known.distribution
    return {
        **found,
        "least": moments.least,
        "greatest": moments.greatest,
        "mean": finite_or_none(moments.mean),
        "deviation": finite_or_none(math.sqrt(moments.variance) if moments.variance < math.inf else math.inf),
        "quantiles": quantiles,
        "quantiles_exact": known.is_exact,
        "outliers": {
            "low": below,
            "high": above,
            "fences": [finite_or_none(fence) for fence in fences],
            "exact": known.knows_outside,
        },
        "histogram": {"edges": edges.tolist(), "counts": np.rint(bars).astype(np.int64).tolist()},
        "distribution": {
            "points": points.tolist(),
            "up_to": [int(one) for one in cumulated],
            "is_step": isinstance(known, Counted) and known.is_step,
        },
    }


def finite_or_none(value: float) -> float | None:
    """None for what JSON has no word for."""
    return value if math.isfinite(value) else None


def plain(column: Any) -> Any:
    """A NumPy or an Arrow array."""
    if isinstance(column, Spans):
        return spans_to_arrow(column)
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column


def floats_of(column: Any) -> npt.NDArray[np.float64]:
    """Numbers of a column, NaN where missing; of vectors all of them."""
    if isinstance(column, pa.Array):
        whole = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
        found = whole.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    else:
        found = np.asarray(column).reshape(-1).astype(np.float64)
    return np.ascontiguousarray(found)


def finite_of(column: Any) -> npt.NDArray[np.float64]:
    """The same, NaN where infinite."""
    found = floats_of(column)
    infinite = np.isinf(found)
    return np.where(infinite, np.nan, found) if infinite.any() else found


def lengths_of(column: pa.Array) -> npt.NDArray[np.int64]:
    """Characters of texts, bytes, values of lists: of rows that are not missing."""
    column = column.drop_null() if column.null_count else column
    if is_text(column.type):
        found = pc.utf8_length(column)
    else:
        found = pc.binary_length(column) if is_bytes(column.type) else pc.list_value_length(column)
    return np.asarray(found.to_numpy(zero_copy_only=False)).astype(np.int64)


def _comparable(column: Any) -> pa.Array:
    """An Arrow array of the values that are there; 0.0 and -0.0 are one."""
    if isinstance(column, pa.Array):
        if pa.types.is_floating(column.type):
            return _comparable(floats_of(column))
        return column.drop_null() if column.null_count else column
    values = np.asarray(column)
    if values.dtype.kind == "f":
        values = values.astype(np.float64) + 0.0
        return pa.array(values[~np.isnan(values)])
    return pa.array(values)


def _there(column: Any) -> npt.NDArray[np.bool_]:
    """Which rows have a value."""
    if isinstance(column, pa.Array):
        if column.null_count == 0 and not pa.types.is_floating(column.type):
            return np.ones(len(column), np.bool_)
        valid: npt.NDArray[np.bool_] = np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False))
        return np.logical_and(valid, ~_is_nan(column))
    values = np.asarray(column)
    if values.dtype.kind != "f":
        return np.ones(len(values), np.bool_)
    missing = np.isnan(values)
    return np.asarray(~(missing.reshape(len(values), -1).all(axis=1) if values.ndim > 1 else missing))


def _is_nan(column: pa.Array) -> npt.NDArray[np.bool_]:
    if not pa.types.is_floating(column.type):
        return np.zeros(len(column), np.bool_)
    missing: npt.NDArray[np.bool_] = np.isnan(column.to_numpy(zero_copy_only=False))
    return missing


def _named(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST:
        digest = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
        return f"{value[:_LONGEST]}…{digest}"  # so that texts that begin alike stay apart
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _kind_of(field: Field) -> str:
    inner = field.required
    if inner.dtype in ("string", "bytes") and not inner.shape:
        return "text" if inner.dtype == "string" else "bytes"
    if inner.shape:
        return "list" if None in inner.shape or inner.dtype in ("string", "bytes") else "vector"
    if inner.dtype == "bool":
        return "bool"
    return "float" if "float" in inner.dtype else "integer"
