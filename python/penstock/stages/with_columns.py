"""The stage of `with_columns`: expressions, computed for all rows of a part at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.batch.stack import field_of, materialize
from penstock.core.columns.spec import Column, Columns, Field, Spec
from penstock.core.errors import PlanError, RowError
from penstock.core.messages import quoted
from penstock.core.names import did_you_mean
from penstock.plan.computing import field_of_value
from penstock.plan.expression import Expression, columns_of
from penstock.plan.expression_values import row_value_of
from penstock.plan.nodes import WithColumns
from penstock.plan.nullable import bfloat16_as_float32
from penstock.resolve.row_places import RowPlaces
from penstock.runtime.stage import Columned
from penstock.source.nulls import as_arrow
from penstock.stages.read.parse import NamedRows

_DO = "give it a value with fill_null, or leave such rows out with drop_nulls"


class ComputeColumns:
    """Adds columns to a part. fields: what each is, None behind a function, which alone knows."""

    def __init__(
        self, sources: tuple[int, int], places: RowPlaces, node: WithColumns, given: Spec | None, fields: Spec | None
    ) -> None:
        self._sources, self._places, self._node = sources, places, node
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
            made = {**part.columns, **self._made(part.columns, part.spec, len(ids))}
            for rule in (self._rules or {}).values():
                if rule.name in made:
                    made |= self._ruled(rule, made[rule.name])
        part.columns = made
        part.spec = {
            name: self._fields[name] if self._fields and name in self._fields else part.spec.get(name) or field_of(one)
            for name, one in made.items()
        }
        if self._fields is None:
            part.spec = {**part.spec, **{name: field_of(made[name]) for name in self._node.made}}
        return item

    def _made(self, columns: Columns, spec: Spec, rows: int) -> Columns:
        made = dict[str, Any]()
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
            given = _as_computed({column: columns[column] for column in needed}, spec)
            try:
                value = row_value_of(expression, given)
            except RowError as error:
                raise RowError(
                    error.row, f"column {quoted(name)}, {quoted(expression)}: {error.found}", error.do
                ) from None
            made[name] = self._column(name, expression, _own(value, given), rows)
        return made

    def _column(self, name: str, expression: Expression, value: Any, rows: int) -> Column:
        """A value as the plan said that it is."""
        if isinstance(value, pa.Array) and pa.types.is_temporal(value.type):
            value = value.cast(pa.int64())
        found = field_of_value(value)
        if found is None:
            raise PlanError(
                f"{self._node.verb}: {name}={quoted(expression)} gives no column; use numbers of at most 64 bits, text or bytes"
            )
        field = found if self._seen is None else self._seen[name]
        if isinstance(value, (str, bytes)):
            return pa.repeat(pa.scalar(value, pa.large_string() if isinstance(value, str) else pa.large_binary()), rows)
        if isinstance(value, pa.Array):
            if not field.required.is_fixed:
                kind = pa.large_string() if field.dtype == "string" else pa.large_binary()
                value = value if value.type == kind else value.cast(kind)
            return value if field.nullable or not value.null_count else _no_null(name, value)
        column = value if isinstance(value, np.ndarray) and value.ndim else np.full(rows, value)
        return pa.array(column) if field.nullable else column

    def _ruled(self, rule: Any, column: Column) -> Columns:
        """A column with what becomes of its nulls; the error of one that was made says what it is made of."""
        column = as_arrow(column)
        if rule.rule == "error" and rule.name in self._node.made and column.null_count:
            _no_null(rule.name, column)
        found: Columns = rule.apply(column)
        return found


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


def _own(value: Any, given: Mapping[str, Any]) -> Any:
    """A value in memory of its own: users may write into one column, and others stay."""
    shares = isinstance(value, np.ndarray) and any(
        isinstance(column, np.ndarray) and np.may_share_memory(value, column) for column in given.values()
    )
    return value.copy() if shares or (isinstance(value, np.ndarray) and not value.flags.writeable) else value


def _apart(column: Column) -> Column:
    return column.copy() if isinstance(column, np.ndarray) else column
