"""What nulls become: the rule `nulls=` of every door, applied to rows when they are read.

| rule    | numbers, truth values, times                                   | text, bytes, lists of any length |
| ------- | -------------------------------------------------------------- | -------------------------------- |
| "error" | a null that is read is an error that names column, file, row   | the same                         |
| "nan"   | floats with NaN; whole numbers and truth values become float64 | Arrow's nulls stay               |
| "mask"  | 0 for null, and a column `<name>_valid` that says which are    | Arrow's nulls stay               |
| "arrow" | Arrow arrays with nulls                                        | Arrow's nulls stay               |

Only columns that have nulls change, by what files say of themselves, so that types do not depend on the batch. Inside a source such a column is an
Arrow array (`Field.nullable`); readers apply the rule to the rows that they took.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns.rows import Rows, new_rows, spans_to_arrow, unpack_rows
from penstock.core.columns.spec import Columns, Field, Ids, Spans, Spec
from penstock.core.errors import PlanError, RowError
from penstock.core.messages import quoted
from penstock.core.verbs.options import Asked, Nulls
from penstock.source.manifest import Manifest
from penstock.source.protocol import Access, Allocate, AnySource, BlockSource, ColumnSource, NullSource, Source
from penstock.source.selection import null_rules

#: float64 holds every whole number up to this, and its multiples by powers of two, exactly.
_EXACT = 1 << 53
#: bfloat16's NaN, as its bits.
_NAN_BITS = np.uint16(0x7FC0)
#: What sources say besides the protocol.
_SAID = ("classes", "classes_given", "labels", "columns", "data", "resuming", "rows_together", "null_counts", "place")


def valid_name(column: str) -> str:
    """The column that says which values of a column are there: valid_name("age") == "age_valid"."""
    return f"{column}_valid"


@dataclass(frozen=True)
class NullRule:
    """The rule of one column. raw: what the source has."""

    name: str
    raw: Field
    rule: str

    @property
    def fields(self) -> dict[str, Field]:
        """The columns that come of it."""
        number = self.raw.required.is_fixed
        if self.rule == "error":
            return {self.name: self.raw.required}
        if not number or self.rule == "arrow":
            return {self.name: self.raw}
        if self.rule == "nan":
            return {self.name: Field(_with_nan(self.raw.dtype), self.raw.shape)}
        return {self.name: self.raw.required, valid_name(self.name): Field("bool", self.raw.shape)}

    def apply(self, column: pa.Array) -> Columns:
        """The columns of some rows; RowError for the first that has a null where it may have none."""
        if self.rule == "error":
            self._check(column)
        if self.rule == "arrow" or not self.raw.required.is_fixed:
            return {self.name: column}
        values, valid = numbers_of(column, self.raw)
        if self.rule == "error":
            return {self.name: values}
        if self.rule == "mask":
            return {self.name: values, valid_name(self.name): valid}
        return {self.name: self._floats(values, valid)}

    def _check(self, column: pa.Array) -> None:
        missing = np.flatnonzero(null_rows(column))
        if not len(missing):
            return
        errors = [self._error(row, is_inside=column[row].is_valid) for row in missing.tolist()]
        errors[0].every = errors
        raise errors[0]

    def _error(self, row: int, *, is_inside: bool) -> RowError:
        keeping = (
            f"nulls='nan' (floats with NaN), 'mask' (a column {quoted(valid_name(self.name))}) or 'arrow' (Arrow's nulls)"
            if self.raw.required.is_fixed
            else "nulls='arrow' (Arrow's nulls)"
        )
        return RowError(
            row,
            f"column {quoted(self.name)} {'has a null in a list' if is_inside else 'is null'}",
            f"give it a value with columns=[penstock.Column(feature={quoted(self.name)}, default=…), ...], leave such rows out with "
            f"filter(penstock.col({quoted(self.name)}).is_not_null()), or say where the data is opened what nulls become: {keeping}",
        )

    def _floats(self, values: npt.NDArray[Any], valid: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        if self.raw.dtype == "bfloat16":
            values[~valid] = _NAN_BITS
            return values
        if values.dtype.kind in "iu" and values.dtype.itemsize == 8:
            lost = _no_floats(values)
            if lost.any():
                row, *at = np.argwhere(lost)[0].tolist()
                raise RowError(
                    row,
                    f"column {quoted(self.name)} is {values[(row, *at)]}, a whole number that float64, which has a NaN for nulls, does not hold exactly",
                    "choose nulls='mask', which keeps whole numbers",
                )
        made = values.astype(_with_nan(self.raw.dtype))
        made[~valid] = np.nan
        return made


def _no_floats(numbers: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which whole numbers of 64 bits float64 rounds: 2**53 + 1, and not 2**54."""
    size = np.abs(numbers).view(np.uint64)
    lowest = np.maximum(size & (~size + np.uint64(1)), np.uint64(1))  # the lowest bit that is set
    return np.asarray(size // lowest > _EXACT)


def _with_nan(dtype: str) -> str:
    return dtype if "float" in dtype or "complex" in dtype else "float64"


def numbers_of(column: pa.Array, field: Field) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Numbers of a fixed shape, 0 for those that are missing, and which are there: arrays of (rows, *shape) that belong to the caller."""
    valid, rows = np.ones(len(column), dtype=np.bool_), len(column)
    for axis in field.shape:
        valid = np.repeat(valid & _valid(column), axis or 0)
        column = column.values.slice(column.offset * (axis or 0), len(column) * (axis or 0))
    valid &= _valid(column)
    dtype, shape = field.numpy_dtype, (rows, *(axis or 0 for axis in field.shape))
    filled = column if not column.null_count else column.fill_null(False if pa.types.is_boolean(column.type) else 0)
    values = np.array(filled.to_numpy(zero_copy_only=False), dtype=dtype)
    values[~valid] = 0
    return values.reshape(shape), valid.reshape(shape)


def _valid(column: pa.Array) -> npt.NDArray[np.bool_]:
    if not column.null_count:
        return np.ones(len(column), dtype=np.bool_)
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False))


def null_rows(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Which rows are null, or hold one."""
    found = ~_valid(column)
    if pa.types.is_fixed_size_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_list(column.type):
        inner = null_rows(column.flatten())
        if inner.any():
            lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
            found |= np.bincount(np.repeat(np.arange(len(column)), lengths), inner, minlength=len(column)) > 0
    return found


@dataclass(frozen=True, eq=False)
class _WithNulls:
    """A source whose columns may be null, with the rule about these. raw: as it is stored. names: the columns, by their order."""

    raw: AnySource
    rules: Mapping[str, NullRule]
    names: tuple[str, ...]

    @property
    def manifest(self) -> Manifest:
        """The source's."""
        return self.raw.manifest

    @property
    def access(self) -> Access:
        """The source's."""
        return self.raw.access

    @cached_property
    def spec(self) -> Spec:
        """The columns that batches have."""
        made = {made: field for rule in self.rules.values() for made, field in rule.fields.items()}
        return {name: made[name] if name in made else self.raw.spec[name] for name in self.names}

    def stored_names(self, names: Sequence[str]) -> list[str]:
        """The columns of the source that these are made of."""
        of_mask = {made: rule.name for rule in self.rules.values() for made in rule.fields}
        return list(dict.fromkeys(of_mask.get(name, name) for name in names))

    def only(self, names: Sequence[str]) -> AnySource:
        """The same rows with these columns alone."""
        stored = self.stored_names(names)
        raw = self.raw.only(stored) if isinstance(self.raw, ColumnSource) else self.raw
        return replace(
            self, raw=raw, rules={name: self.rules[name] for name in stored if name in self.rules}, names=tuple(names)
        )

    def applied(self, columns: Columns) -> Columns:
        """Rows as batches have them; RowError for the first that has a null where it may have none."""
        made: dict[str, Any] = dict(columns)
        for name, rule in self.rules.items():
            made |= rule.apply(as_arrow(columns[name]))
        return {name: made[name] for name in self.names}

    def looked_at(self, columns: Columns) -> Columns:
        """The same as expressions see them: with nulls."""
        made: dict[str, Any] = dict(columns)
        for name, rule in self.rules.items():
            if valid_name(name) in rule.fields and name in columns:
                made[valid_name(name)] = numbers_of(as_arrow(columns[name]), rule.raw)[1]
        return made

    def __getattr__(self, name: str) -> Any:
        if name in _SAID:
            return getattr(self.raw, name)
        raise AttributeError(name)


def as_arrow(column: Any) -> pa.Array:
    """A column that may have nulls, as an Arrow array."""
    if isinstance(column, Spans):
        return spans_to_arrow(column)
    return column if isinstance(column, pa.Array) else pa.array(column)


@dataclass(frozen=True, eq=False)
class RecordsWithNulls(_WithNulls):
    """Records, and rows in memory."""

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """See `Source`."""
        raw: Any = self.raw
        return self.applied(raw.parse(samples, records, allocate, threads=threads))


@dataclass(frozen=True, eq=False)
class BlocksWithNulls(_WithNulls):
    """Rows that are loaded in blocks."""

    @property
    def block_rows(self) -> int | None:
        """The source's."""
        raw: Any = self.raw
        found: int | None = raw.block_rows
        return found

    def load(self, first: int, rows: int) -> Columns | Rows:
        """See `BlockSource`: as batches have them."""
        raw: Any = self.raw
        found = raw.load(first, rows)
        return self.applied(_columns(found, raw.spec) if isinstance(found, Rows) else found)


def _columns(rows: Rows, spec: Spec) -> Columns:
    """The columns of rows that lie side by side."""
    number = np.arange(len(rows), dtype=np.int64)
    fixed = {name: new_rows(name, field, len(rows)) for name, field in spec.items() if field.is_fixed}
    unpack_rows([rows], np.zeros_like(number), number, spec, [*fixed.values()], threads=1)
    return {name: fixed[name] if name in fixed else rows.others[name] for name in spec}


def with_nulls(source: AnySource, nulls: Nulls, asked: Asked) -> AnySource:
    """The source with the rule about its nulls; itself where no column has any."""
    said = null_rules([*source.spec], nulls, asked)
    rules = {name: NullRule(name, field, said[name]) for name, field in source.spec.items() if field.nullable}
    if not rules:
        return source
    names = [made for name in source.spec for made in (rules[name].fields if name in rules else [name])]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise PlanError(
            f"nulls='mask' adds a column {quoted(twice)}, and there is one already; rename it with columns={{'other name': {quoted(twice)}, ...: ...}}"
        )
    assert isinstance(source, (Source, BlockSource))
    return _kind_of(source)(source, rules, tuple(names))


def _kind_of(source: AnySource) -> type[BlocksWithNulls | RecordsWithNulls]:
    return BlocksWithNulls if isinstance(source, BlockSource) else RecordsWithNulls


def keeping_nulls(source: AnySource) -> AnySource:
    """The source with Arrow's nulls where they would be errors, for batches that are frames."""
    if not isinstance(source, _WithNulls):
        return source
    kept = {name: replace(rule, rule="arrow") if rule.rule == "error" else rule for name, rule in source.rules.items()}
    return replace(source, rules=kept)


def seeing_nulls(source: AnySource) -> tuple[AnySource, dict[str, str]]:
    """The source with Arrow's nulls where they would be errors or NaN, and the rules of these columns, by which they become so later.

    A mask stays: it is a column of its own. Of sources that know of nulls when they meet them, all columns may have some.
    """
    raw: Any = stored(source)
    seen = raw.seeing_nulls() if isinstance(raw, NullSource) else raw
    known = source.rules if isinstance(source, _WithNulls) else {}
    rules = {
        name: known.get(name) or NullRule(name, field, "error") for name, field in seen.spec.items() if field.nullable
    }
    late = {name: rule.rule for name, rule in rules.items() if rule.rule == "error" or _is_late(rule)}
    if not late:
        return source, {}
    arrow = {name: NullRule(name, seen.spec[name], "arrow") if name in late else rule for name, rule in rules.items()}
    kind = type(source) if isinstance(source, _WithNulls) else _kind_of(seen)
    return kind(seen, arrow, source.names if isinstance(source, _WithNulls) else tuple(source.spec)), late


def _is_late(rule: NullRule) -> bool:
    return rule.rule == "nan" and rule.raw.required.is_fixed


def null_count(source: Any, name: str) -> int | None:
    """How many nulls a column has; None where that is not known without reading it."""
    raw = stored(source)
    if (field := raw.spec.get(name)) is None or not field.nullable:
        return 0
    if (column := getattr(raw, "columns", None)) and isinstance(column, Mapping):
        return int(column[name].null_count)
    found: int | None = getattr(raw, "null_counts", {}).get(name)
    return found


def stored(source: Any) -> Any:
    """A source as it is stored, before a rule about nulls."""
    return source.raw if isinstance(source, _WithNulls) else source
