"""What columns come of expressions, before anything runs: their types, and whether they may be null."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.core.columns.spec import Field, Spec, field_of_type
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.core.names import did_you_mean
from penstock.plan.expression import Expression, columns_of
from penstock.plan.expression_values import no_rows, value_of

#: Columns by name, and what they are computed by.
Named: TypeAlias = Sequence[tuple[str, Expression]]

#: What is never null, whatever it is computed of.
_NEVER_NULL = ("is_null", "literal")


def computed_spec(verb: str, expressions: Named, given: Spec) -> Spec:
    """The columns behind expressions; PlanError for one that cannot be computed of what is given."""
    return {**given, **{name: field_of_expression(verb, name, one, given) for name, one in expressions}}


def field_of_expression(verb: str, name: str, expression: Expression, given: Spec) -> Field:
    """What an expression gives for a row; PlanError for columns that are not there, and types that do not fit."""
    what, named = f"{verb}: {name}={quoted(expression)}", columns_of(expression)
    for column in sorted(named):
        if column not in given:
            raise PlanError(
                f"{what}: no column {quoted(column)}; there are {', '.join(given)}{did_you_mean(column, given)}"
            )
    if expression.operation == "column":
        return given[expression.operands[0]]
    if not named and expression.operation != "literal":
        raise PlanError(f"{what} names no column; for one value in all rows write penstock.lit(value)")
    try:
        found = value_of(expression, {column: no_rows(given[column]) for column in named})
    except PlanError as error:
        raise PlanError(f"{verb}: {name}={error}") from None
    field = field_of_value(found)
    if field is None:
        raise PlanError(
            f"{what} gives {_kind(found)}, which is no column; use numbers of at most 64 bits, text or bytes"
        )
    if None in field.shape or (field.shape and len(named) > 1):
        raise PlanError(f"{what} gives several values a row, of several columns; compute such ones with map")
    return replace(field, nullable=True) if may_be_null(expression, nullable_in(given)) else field


def field_of_value(value: Any) -> Field | None:
    """The field of what an expression gave, but for nulls; None for what is no column."""
    if isinstance(value, pa.Array):
        return Field("int64") if pa.types.is_temporal(value.type) else field_of_type(value.type)
    if isinstance(value, (str, bytes)):
        return Field("string" if isinstance(value, str) else "bytes")
    array = np.asarray(value)
    return Field(array.dtype.name, array.shape[1:]) if array.dtype.kind in "biuf" else None


def _kind(value: Any) -> str:
    return str(getattr(value, "dtype", type(value).__name__))


def nullable_in(given: Spec) -> set[str]:
    """The columns that may hold nulls."""
    return {name for name, field in given.items() if field.nullable}


def may_be_null(expression: Any, nullable: Collection[str]) -> bool:
    """Whether a row may be null, by which columns may be."""
    if not isinstance(expression, Expression):
        return False
    operation, operands = expression.operation, expression.operands
    if operation in _NEVER_NULL:
        return False
    if operation == "column":
        return operands[0] in nullable
    if operation == "fill_null":
        return may_be_null(operands[1], nullable)
    if operation == "when":
        return operands[-1] is None or any(may_be_null(one, nullable) for one in (*operands[1:-1:2], operands[-1]))
    return any(may_be_null(one, nullable) for one in operands)


def looks_at_nulls(expression: Any) -> set[str]:
    """The columns whose nulls an expression looks at: by `is_null` or `fill_null`."""
    if not isinstance(expression, Expression):
        return set()
    first = columns_of(expression.operands[0]) if expression.operation in ("is_null", "fill_null") else set()
    return first.union(*map(looks_at_nulls, expression.operands))


def rule_of_made(expression: Expression, given: Spec, rules: Mapping[str, str]) -> str:
    """The rule about nulls of a column that may be null: that of the first column that brings them in."""
    nullable = [name for name in given if given[name].nullable and name in columns_of(expression)]
    return rules.get(nullable[0], "arrow") if nullable else "error"
