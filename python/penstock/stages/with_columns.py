"""The stage of `with_columns`: expressions, computed for all rows of a part at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.batch.stack import field_of, materialize
from penstock.core.columns.spec import Column, Columns, Field, Spec, field_of_type
from penstock.core.errors import PlanError, RowError
from penstock.core.messages import quoted
from penstock.core.names import did_you_mean
from penstock.plan.computing import field_of_value, may_be_null
from penstock.plan.expression import Expression, columns_of
from penstock.plan.expression_values import row_value_of
from penstock.plan.nodes import WithColumns
from penstock.plan.nullable import Columns as Apart
from penstock.plan.nullable import bfloat16_as_float32
from penstock.resolve.row_places import RowPlaces
from penstock.runtime.slots import Slots
from penstock.runtime.stage import Columned
from penstock.source.nulls import NullRule, as_arrow
from penstock.stages.read.parse import NamedRows

#: Rows that are computed together.
_PIECE_ROWS = 1 << 16
_DO = "give it a value with fill_null, or leave such rows out with drop_nulls"


class ComputeColumns:
    """Adds columns to a part. fields: what each is, None behind a function, which alone knows."""

    def __init__(
        self,
        sources: tuple[int, int],
        places: RowPlaces,
        slots: Slots,
        node: WithColumns,
        given: Spec | None,
        fields: Spec | None,
    ) -> None:
        self._sources, self._places, self._node = sources, places, node
        self._allocate = slots.array
        self._seen = None if given is None else node.seen(given)
        self._rules = None if self._seen is None else node.rules(self._seen)
        self._fields = fields

    def __call__(self, item: Columned) -> Columned:
        """DataError, with file and record, for a row of which a column cannot be computed, or is null where it may not be."""
        part = item.part(self._sources)
        if part is None:
            return item
        ids = item.ids_of(part)
        with NamedRows(self._places, ids, self._places.own_id):
            made = self.made_of(part.columns, part.spec, len(ids))
        fields = {} if self._fields is None else {name: self._fields[name] for name in made if name in self._fields}
        kept = {name: field for name, field in part.spec.items() if name in made and name not in self._node.made}
        part.columns, part.spec = made, {name: field_of(column) for name, column in made.items()} | kept | fields
        return item

    def made_of(self, columns: Columns, spec: Spec, rows: int) -> Columns:
        """The columns of so many rows with those that it makes, behind the rules about nulls; RowError for a row that is wrong."""
        made = {**columns, **self.computed(columns, spec, rows)}
        for rule in self._rules_of(made).values():
            made |= self._ruled(rule, made[rule.name])
        return made

    def _rules_of(self, made: Columns) -> dict[str, NullRule]:
        """What becomes of nulls; behind a function by what it returned."""
        if self._rules is not None:
            return {name: rule for name, rule in self._rules.items() if name in made}
        nullable = {
            name: replace(field_of(one), nullable=True) for name, one in made.items() if isinstance(one, pa.Array)
        }
        return self._node.rules(nullable)

    def computed(self, columns: Columns, spec: Spec, rows: int) -> Columns:
        """The columns that it makes of so many rows."""
        made = dict[str, Any]()
        every = {column for one in self._node.made.values() for column in columns_of(one)}
        given = Apart(_as_computed({column: columns[column] for column in sorted(every) if column in columns}, spec))
        for name, expression in self._node.expressions:
            needed = columns_of(expression)
            for column in sorted(needed):
                if column not in columns:
                    raise PlanError(
                        f"{self._node.verb}: {name}={quoted(expression)}: no column {quoted(column)}; the function before it returned "
                        f"{', '.join(columns)}{did_you_mean(column, columns)}"
                    )
            if expression.operation == "column":
                made[name] = _apart(columns[expression.operands[0]])
                continue
            try:
                value = _value_of(expression, given if needed else Apart({}), rows, self._allocate)
            except RowError as error:
                raise RowError(
                    error.row, f"column {quoted(name)}, {quoted(expression)}: {error.found}", error.do
                ) from None
            field = _field_now(expression, value, given) if self._seen is None else self._seen[name]
            made[name] = self._column(name, _own(value, given), field, rows)
        return made

    def _column(self, name: str, value: Any, field: Field | None, rows: int) -> Column:
        """A value as the plan said that it is."""
        if field is None:
            raise PlanError(
                f"{self._node.verb}: {name}={quoted(self._node.made[name])} gives no column; use numbers of at most 64 bits, text or bytes"
            )
        if isinstance(value, pa.Array) and pa.types.is_temporal(value.type):
            value = value.cast(pa.int64())
        if isinstance(value, (str, bytes)):
            return pa.repeat(pa.scalar(value, pa.large_string() if isinstance(value, str) else pa.large_binary()), rows)
        if isinstance(value, pa.Array):
            if not field.required.is_fixed:
                kind = pa.large_string() if field.dtype == "string" else pa.large_binary()
                value = value if value.type == kind else value.cast(kind)
            return value if field.nullable or not value.null_count else _no_null(name, value)
        column = value if isinstance(value, np.ndarray) and value.ndim else np.full(rows, value)
        return pa.array(column) if field.nullable else column

    def _ruled(self, rule: NullRule, column: Column) -> Columns:
        """A column with what becomes of its nulls; the error of one that was made says what it is made of."""
        column = as_arrow(column)
        if rule.rule == "error" and rule.name in self._node.made and column.null_count:
            _no_null(rule.name, column)
        found: Columns = rule.apply(column)
        return found


def _value_of(
    expression: Expression, given: Apart, rows: int, allocate: Callable[[Field, int], npt.NDArray[Any]]
) -> Any:
    """What an expression gives, computed a piece after the other: what lies between its operations stays in the CPU's cache, and in memory that is there."""
    if rows <= _PIECE_ROWS or not given:
        return row_value_of(expression, given)
    parts, out = list[Any](), None
    for first in range(0, rows, _PIECE_ROWS):
        some = Apart({name: given[name][first : first + _PIECE_ROWS] for name in columns_of(expression)})
        try:
            part = row_value_of(expression, some)
        except RowError as error:
            raise RowError(first + error.row, error.found, error.do) from None
        if first == 0 and isinstance(part, np.ndarray) and (field := field_of_value(part)) is not None:
            out = allocate(field, rows)
        if out is not None and isinstance(part, np.ndarray):
            out[first : first + len(part)] = part
        else:
            parts.append((first, part))
    if out is None:
        return pa.concat_arrays([part if isinstance(part, pa.Array) else pa.array(part) for _, part in parts])
    return out if not parts else _with_nulls(out, parts)


def _with_nulls(out: npt.NDArray[Any], parts: Sequence[tuple[int, pa.Array]]) -> pa.Array:
    """Numbers, some pieces of which are Arrow's, since values are missing in them."""
    pieces, done = list[pa.Array](), 0
    for first, part in parts:
        pieces += [pa.array(out[done:first]), part]
        done = first + len(part)
    return pa.concat_arrays([*pieces, pa.array(out[done:])])


def _field_now(expression: Expression, value: Any, given: Mapping[str, Any]) -> Field | None:
    """What came of an expression behind a function: it may be null in every batch where it may be in one."""
    field = field_of_value(value)
    numbers = {
        name for name, column in given.items() if isinstance(column, pa.Array) and field_of_type(column.type).is_fixed
    }
    return field if field is None else replace(field, nullable=may_be_null(expression, numbers))


def _no_null(name: str, column: pa.Array) -> pa.Array:
    """RowError for all rows in which a column is null."""
    missing = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist()
    errors = [RowError(row, f"column {quoted(name)} is null", _DO) for row in missing]
    errors[0].every = errors
    raise errors[0]


def _as_computed(columns: Columns, spec: Spec) -> dict[str, Any]:
    """Columns as expressions take them."""
    found = materialize(columns)
    return {
        name: bfloat16_as_float32(column) if _is_bfloat16(spec.get(name)) else column for name, column in found.items()
    }


def _is_bfloat16(field: Field | None) -> bool:
    return field is not None and field.dtype == "bfloat16" and field.required.is_fixed


def _own(value: Any, given: Apart) -> Any:
    """A value in memory of its own: users may write into one column, and others stay."""
    shares = isinstance(value, np.ndarray) and any(np.may_share_memory(value, one) for one in given.arrays)
    return value.copy() if shares or (isinstance(value, np.ndarray) and not value.flags.writeable) else value


def _apart(column: Column) -> Column:
    return column.copy() if isinstance(column, np.ndarray) else column
