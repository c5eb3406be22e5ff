"""Missing values get the last one before them, in the natural order of the rows: looked at once, when the verb is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns.spec import Field
from penstock.core.errors import PlanError
from penstock.core.files.byte_ranges import ByteRanges, Progress
from penstock.core.messages import counted, quoted
from penstock.core.names import did_you_mean
from penstock.inputs.gaps import Gaps, gap_values
from penstock.looking.column_values import column_values
from penstock.looking.rows import Looking
from penstock.plan.column_verbs import check_nulls_are_seen
from penstock.plan.columns import spec_of
from penstock.plan.expression import Expression, col
from penstock.plan.node import Node
from penstock.plan.nodes import Opened, Read, Select, WithColumns, Zip
from penstock.plan.null_rules import put_off
from penstock.plan.when import when
from penstock.source.nulls import with_nulls

_VERB = "forward_fill"
#: Runs of missing values that are held of a column: 16 bytes and a value each.
_MOST = 1 << 24


def forward_filled(root: Node, names: tuple[str, ...], progress: Progress | None) -> Node:
    """The plan with some columns filled, or all that may be missing; itself where nothing can be filled."""
    looking = Looking(_VERB, root, progress)
    below, rules = put_off(root)
    spec = spec_of(below)
    for name in names:
        _check(name, spec)
    chosen = names or tuple(name for name, field in spec.items() if _may_be_missing(field))
    check_nulls_are_seen(_VERB, root, spec, {name: col(name).is_null() for name in names or spec})
    if not names:
        _check_others(
            root, {name: field for name, field in spec.items() if field.nullable and name not in chosen}, progress
        )
    found: dict[str, Gaps] = {}
    for name in chosen:
        values = column_values(_VERB, root, col(name), progress)
        gaps = Gaps.of(values, missing_in(values))
        if len(gaps) > _MOST:
            raise PlanError(
                f"{_VERB}: column {quoted(name)} is missing in {len(gaps):,} runs of rows, and {_MOST:,} can be held; fill it where the data is written"
            )
        if len(gaps):
            found[name] = gaps
    if not found:
        return root
    held = {_held(name): gaps for name, gaps in found.items()}
    source = gap_values(looking.rows, held, {_held(name): spec[name].required for name in found})
    columns = tuple((name, name) for name in held)
    opened = Opened(source=with_nulls(source, "arrow", None), read_ranges=ByteRanges())
    beside = Read(opened=opened, where=f"values for {', '.join(found)}", format="gaps", columns=columns)
    pairs = tuple((name, _filled(name, spec[name])) for name in found)
    kept = tuple((name, rule) for name, rule in rules.items() if rule != "arrow")
    made = WithColumns(input=Zip(inputs=(below, beside)), expressions=pairs, nulls=kept, verb=_VERB)
    return Select(input=made, columns=tuple(spec_of(root)))


def _held(name: str) -> str:
    return f"{name}, the last one before"


def _filled(name: str, field: Field) -> Expression:
    value, before = col(name), col(_held(name))
    if field.dtype in ("string", "bytes"):
        return value.fill_null(before)
    if "float" not in field.dtype:
        return value.fill_null(before).cast(field.dtype)
    is_missing = value.is_nan().fill_null(True)  # a value of the column
    return when(is_missing).then(before.fill_null(value)).otherwise(value).cast(field.dtype)


def missing_in(values: Any) -> npt.NDArray[np.bool_]:
    """Which values are null, or NaN."""
    if isinstance(values, pa.Array):
        return np.asarray(values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False))
    is_float = values.dtype.kind == "f"
    return np.isnan(values) if is_float else np.zeros(len(values), np.bool_)


def _may_be_missing(field: Field) -> bool:
    return not field.shape and (field.nullable or "float" in field.dtype) and field.dtype != "bfloat16"


def _check_others(root: Node, others: Mapping[str, Field], progress: Progress | None) -> None:
    """PlanError for columns that may be missing and cannot be filled, if a row of theirs is: to leave it as it is, others are named."""
    for name, field in others.items():
        missing = np.flatnonzero(column_values(_VERB, root, col(name).is_null(), progress))
        if len(missing):
            raise PlanError(
                f"{_VERB}: column {quoted(name)} is {field}, which cannot be filled, and missing in {counted(len(missing), 'row')}, the first is row {missing[0]:,}; name the columns that are to be filled, as {_VERB}('a', 'b'), to leave it as it is"
            )


def _check(name: str, spec: Any) -> None:
    if name not in spec:
        raise PlanError(f"{_VERB}: no column {quoted(name)}; there are {', '.join(spec)}{did_you_mean(name, spec)}")
    field = spec[name]
    if field.shape or field.dtype == "bfloat16" or "complex" in field.dtype:
        raise PlanError(
            f"{_VERB}: column {quoted(name)} is {field}; a number, a text or bytes a row can be filled, so leave it out"
        )
