"""The verbs that compute columns: with_columns, rename, cast, fill_null."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.core.columns.spec import Field, Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.core.names import did_you_mean
from penstock.plan.columns import known_columns, spec_of
from penstock.plan.computing import computed_spec, looks_at_nulls, rule_of_made
from penstock.plan.expression import Expression, col, lit
from penstock.plan.node import Node
from penstock.plan.nodes import Select, WithColumns
from penstock.plan.null_rules import put_off
from penstock.plan.tree import is_column_unknown, leaves
from penstock.source.nulls import stored

_AFTER_FUNCTION = (
    "the columns after a function are not known in advance; write it before the function, or let the function do it"
)


def with_columns(verb: str, root: Node, given: Mapping[str, Any]) -> WithColumns:
    """A verb that computes columns."""
    if not given:
        raise PlanError(f"{verb}: no columns; write e.g. with_columns(ratio=penstock.col('a') / penstock.col('b'))")
    expressions = {name: _expression(verb, name, one) for name, one in given.items()}
    below, rules = put_off(root)
    pairs = tuple(expressions.items())
    if is_column_unknown(root):
        return WithColumns(input=root, expressions=pairs)
    seen = spec_of(below)
    try:
        check_nulls_are_seen(verb, root, seen, expressions)
        made = computed_spec(verb, pairs, seen)
    except RecursionError:
        raise PlanError(
            f"{verb}: an expression of too many operations inside each other; compute it by several {verb}, or with is_in"
        ) from None
    of_made = {name: rule_of_made(one, seen, rules) for name, one in pairs if made[name].nullable}
    kept = {name: rule for name, rule in rules.items() if name not in expressions and name in made}
    nulls = {name: rule for name, rule in (kept | of_made).items() if rule != "arrow"}
    return WithColumns(input=below, expressions=pairs, nulls=tuple(nulls.items()))


def _expression(verb: str, name: str, given: Any) -> Expression:
    if isinstance(given, Expression):
        return given
    if isinstance(given, (str, bytes)):
        raise PlanError(
            f"{verb}: {name}={quoted(given)} could be a column or a value; write penstock.col({quoted(given)}) or penstock.lit({quoted(given)})"
        )
    if callable(given) or isinstance(given, (list, tuple, dict)) or hasattr(given, "shape"):
        raise PlanError(
            f"{verb}: {name}= is a {type(given).__name__}; pass an expression such as penstock.col('a') * 2. A function goes to map, an array to zip"
        )
    return lit(given)


def check_nulls_are_seen(verb: str, root: Node, seen: Spec, expressions: Mapping[str, Expression]) -> None:
    """PlanError for an expression that looks at nulls which became something else when rows were read."""
    fields = [{**stored(leaf.opened.source).spec} for leaf in leaves(root)]
    for name, expression in expressions.items():
        for column in sorted(looks_at_nulls(expression)):
            field = seen.get(column)
            if field is None or field.nullable or not any(one.get(column, field).nullable for one in fields):
                continue
            raise PlanError(
                f"{verb}: {name}={quoted(expression)}: what becomes of nulls in {quoted(column)} was decided where it is read, by nulls=, and no null comes up to here; write "
                f"it right behind what reads, before joins, caches, ops and functions, or read with nulls='arrow'"
            )


def renamed(root: Node, names: Any) -> Node:
    """The columns under other names, each at its place."""
    if (
        not isinstance(names, Mapping)
        or not names
        or not all(isinstance(one, str) for pair in names.items() for one in pair)
    ):
        raise PlanError(f'rename({quoted(names)}): pass old and new names, as {{"old": "new"}}')
    known = known_columns(root)
    if known is None:
        raise PlanError(f"rename: {_AFTER_FUNCTION}")
    for old in names:
        _check_there("rename", old, known)
    after = [names.get(name, name) for name in known]
    if twice := next((name for name in after if after.count(name) > 1), None):
        clashing = [old for old, new in zip(known, after, strict=True) if new == twice]
        raise PlanError(
            f"rename: {' and '.join(map(quoted, clashing))} would both be {quoted(twice)}; choose another name, or drop one of them first"
        )
    changed = {new: col(old) for old, new in names.items() if old != new}
    return Select(input=with_columns("rename", root, changed), columns=tuple(after)) if changed else root


def cast_columns(root: Node, dtypes: Any) -> WithColumns:
    """Columns in other types."""
    if not isinstance(dtypes, Mapping) or not dtypes:
        raise PlanError(f'cast({quoted(dtypes)}): pass columns and their types, as {{"age": "float32"}}')
    return with_columns("cast", root, {name: col(name).cast(dtype) for name, dtype in dtypes.items()})


def filled(root: Node, values: Any) -> Node:
    """Columns with a value for their nulls."""
    if isinstance(values, Mapping):
        if not values:
            raise PlanError('fill_null({}): pass a value, or columns and their values, as {"age": 0}')
        return with_columns("fill_null", root, {name: col(name).fill_null(value) for name, value in values.items()})
    if known_columns(root) is None:
        raise PlanError(f"fill_null: {_AFTER_FUNCTION}")
    value = lit(values).operands[0]
    spec = spec_of(put_off(root)[0])
    fitting = [name for name, field in spec.items() if field.nullable and _fits(value, field)]
    if not fitting:
        nullable = ", ".join(f"{name} is {field}" for name, field in spec.items() if field.nullable)
        raise PlanError(
            f"fill_null({quoted(values)}): no column takes it ({nullable or 'none can be null'}); name columns and values: fill_null({{'age': 0}})"
        )
    return with_columns("fill_null", root, {name: col(name).fill_null(value) for name in fitting})


def _fits(value: Any, field: Field) -> bool:
    """Whether a value is of the kind of a column: as Polars, a number fills numbers, and text text."""
    if field.shape:
        return False
    if isinstance(value, (str, bytes)):
        return field.dtype == ("string" if isinstance(value, str) else "bytes")
    if isinstance(value, bool) or field.dtype == "bool":
        return isinstance(value, bool) and field.dtype == "bool"
    return field.dtype not in ("string", "bytes") and (isinstance(value, int) or "float" in field.dtype)


def present(root: Node, names: tuple[str, ...]) -> Expression | None:
    """What is true for rows that have no null in some columns, or in any; None where none can be null."""
    spec = spec_of(put_off(root)[0])
    for name in names:
        _check_there("drop_nulls", name, spec)
    fields = [stored(leaf.opened.source).spec for leaf in leaves(root)]
    found: Expression | None = None
    for name in names or spec:
        if any(one.get(name, spec[name]).nullable for one in (spec, *fields)):
            one = col(name).is_not_null()
            found = one if found is None else found & one
    return found


def _check_there(verb: str, name: str, known: Any) -> None:
    if name not in known:
        raise PlanError(f"{verb}: no column {quoted(name)}; there are {', '.join(known)}{did_you_mean(name, known)}")
