"""A target by category and fold: counts of its classes, or exact sums of its values and their squares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.columns.repeated_values import is_repeated
from penstock.core.columns.spec import Ids
from penstock.core.errors import DataError, RowError
from penstock.transform.table.statistics.known_rows import KnownRows, fold_of
from penstock.transform.table.statistics.protocol import Block

#: Rows of tables of single blocks that are held before they are added up.
_PENDING = 1 << 20
#: Rows of such a table, with what was met so far, and sums of numbers: of a column that is no category, there would be one of each row.
_MOST = 1 << 22
_TOGETHER = 1 << 16
#: A float64 is a whole number of 53 bits times a power of two. Its parts of 27 bits, and those of its square, add up in int64.
_BITS, _PART, _MASK = 53, 27, (1 << 27) - 1
_PARTS = ("high", "low", "high_high", "high_low", "middle_high", "middle_low", "low_high", "low_low")


@dataclass(frozen=True)
class TargetCells:
    """What is known of categories in folds. categories: ascending, null last where values were missing. classes: of the target; None of numbers.

    counts: (categories, folds). sums, squares: of each class's truth value, or of the numbers: (classes or 1, categories, folds), whole numbers of units of 2**unit and their squares.
    """

    categories: pa.Array
    classes: list[Any] | None
    counts: Ids
    sums: npt.NDArray[Any]
    squares: npt.NDArray[Any]
    unit: int


class Targets:
    """Of a column's categories, and missing values as one more. column: the target. folds, seed: see `fold_of`. is_continuous: whether its numbers add up, else its classes are counted."""

    takes_floats = False

    def __init__(self, column: str, folds: int, seed: int, *, is_continuous: bool) -> None:
        self.rows = KnownRows()
        self._column, self._folds, self._seed, self._is_continuous = column, folds, seed, is_continuous
        self._tables, self._pending = list[pa.Table](), 0

    def add(self, block: Block) -> None:
        """See `Statistic`."""
        assert block.rows is not None
        assert block.sources is not None
        folds = np.zeros(len(block.rows), np.int64)
        for rows in block.sources.divided(block.rows):
            self.rows.add(rows)
            folds[rows.places] = fold_of(rows.numbers, self._folds, self._seed)
        said = self._parts_of(block.target) if self._is_continuous else {"class": self._classes_of(block.target)}
        values = block.values.dictionary_decode() if is_repeated(block.values) else block.values
        self._take(_summed(pa.table({"value": values, "fold": folds, **said, "rows": np.ones_like(folds)})))

    def merge(self, other: Self) -> None:
        """See `Statistic`."""
        self.rows.merge(other.rows)
        for table in other._tables:
            self._take(table)

    def next(self) -> Self | None:
        """See `Statistic`."""
        return None

    def _take(self, table: pa.Table) -> None:
        self._tables.append(table)
        self._pending += len(table)
        if self._pending > max(_PENDING, 2 * len(self._tables[0])):
            self._add_up()

    def _add_up(self) -> None:
        if len(self._tables) > 1:
            self._tables = [_summed(pa.concat_tables(self._tables))]
        self._pending = 0
        if self._tables and len(self._tables[0]) > _MOST:
            _refuse_many(self._tables[0].column("value"))

    def _classes_of(self, target: Any) -> pa.Array:
        classes = target if isinstance(target, pa.Array) else pa.array(target)
        self._refuse(pc.is_null(classes, nan_is_null=True).to_numpy(zero_copy_only=False), "is missing")
        return classes

    def _parts_of(self, column: Any) -> dict[str, Ids]:
        array = column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column
        target = array.astype(np.float64)
        self._refuse(np.isnan(target), "is missing")
        self._refuse(np.isinf(target), "is infinite")
        fractions, exponents = np.frexp(target)
        whole = (fractions * float(1 << _BITS)).astype(np.int64)
        high, low = whole >> _PART, whole & _MASK
        products = [high * high, high * low, low * low]
        parts = [high, low, *(part for one in products for part in (one >> _PART, one & _MASK))]
        return {"class": exponents.astype(np.int64), **dict(zip(_PARTS, parts, strict=True))}

    def _refuse(self, wrong: npt.NDArray[np.bool_], what: str) -> None:
        if wrong.any():
            raise RowError(
                int(np.argmax(wrong)),
                f"column '{self._column}', the target, {what}",
                f"leave such rows out: Recipe({self._column}=DropMissing()), or filter",
            )

    @property
    def cells(self) -> TargetCells:
        """All that was met."""
        self._add_up()
        (table,) = self._tables or [None]
        if table is None:
            return TargetCells(pa.array([], pa.large_string()), None, *(np.zeros((0, self._folds), np.int64),) * 3, 0)
        values = _one(table.column("value"))
        found = values.unique().drop_null()
        categories = found.take(pc.array_sort_indices(found))
        known = len(categories)
        rows = pc.fill_null(pc.index_in(values, categories), known).to_numpy().astype(np.int64)
        if values.null_count:
            categories = pa.concat_arrays([categories, pa.nulls(1, categories.type)])
        shape = (len(categories), self._folds)
        if self._is_continuous and shape[0] * shape[1] > _MOST:
            _refuse_many(categories)
        at = rows * self._folds + table.column("fold").to_numpy()
        counts = _at(at, table.column("rows").to_numpy(), shape)
        if self._is_continuous:
            sums, squares, unit = self._numbers(table, at, shape)
            return TargetCells(categories, None, counts, sums[None], squares[None], unit)
        classes = _one(table.column("class"))
        each = classes.unique().take(pc.array_sort_indices(classes.unique()))
        which = pc.index_in(classes, each).to_numpy()
        counted = table.column("rows").to_numpy()
        sums = np.stack([_at(at[which == one], counted[which == one], shape) for one in range(len(each))])
        return TargetCells(categories, each.to_pylist(), counts, sums, sums, 0)

    @staticmethod
    def _numbers(table: pa.Table, at: Ids, shape: tuple[int, int]) -> tuple[Any, Any, int]:
        """Sums and sums of squares, and their unit."""
        exponents = table.column("class").to_numpy()
        least = int(exponents.min())
        totals, squares = (np.zeros(shape[0] * shape[1], object) for _ in range(2))
        for first in range(0, len(table), _TOGETHER):  # Python's whole numbers are large
            part = slice(first, first + _TOGETHER)
            held = [table.column(name).slice(first, _TOGETHER).to_numpy().astype(object) for name in _PARTS]
            high, low, *products = held
            both = [(one << _PART) + other for one, other in zip(products[::2], products[1::2], strict=True)]
            shift = (exponents[part] - least).astype(object)
            np.add.at(totals, at[part], ((high << _PART) + low) << shift)
            np.add.at(squares, at[part], ((both[0] << 2 * _PART) + (both[1] << _PART + 1) + both[2]) << 2 * shift)
        return totals.reshape(shape), squares.reshape(shape), least - _BITS


def _refuse_many(values: Any) -> None:
    raise DataError(
        f"has {len(values.unique()):,} categories or more, too many to keep a target by each and its folds; put Hash before Target"
    )


def _at(places: Ids, values: npt.NDArray[Any], shape: tuple[int, int]) -> npt.NDArray[Any]:
    """Sums of values by place."""
    found = np.zeros(shape[0] * shape[1], values.dtype)
    np.add.at(found, places, values)
    return found.reshape(shape)


def _summed(table: pa.Table) -> pa.Table:
    """The same with a row for each category, fold and class."""
    keys = ["value", "fold", "class"]
    sums: Sequence[str] = [name for name in table.column_names if name not in keys]
    made = table.group_by(keys).aggregate([(name, "sum") for name in sums])
    return made.select([*keys, *(f"{name}_sum" for name in sums)]).rename_columns([*keys, *sums])


def _one(column: pa.ChunkedArray) -> pa.Array:
    found: Any = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
