"""The facts of a dataset, as plain values that JSON holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from penstock.core.columns.spec import Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.profiling.columns import KEPT
from penstock.profiling.gathering import DISTINCT_ROWS, BlocksOf, Gathered

#: Of the layout of the facts, which `save` writes.
VERSION = 1
#: Two columns are told to be related from here on.
CORRELATED = 0.8


def facts_of(
    spec: Spec,
    blocks_of: BlocksOf,
    *,
    label: str | None,
    decodes: bool,
    digest: str,
    classes: Sequence[str],
    progress: Callable[[int], None],
) -> dict[str, Any]:
    """Everything that two passes find."""
    gathered = Gathered(spec, decodes=decodes)
    gathered.gather(blocks_of, progress)
    columns = {column.name: column.facts() for column in gathered.columns}
    rows = gathered.rows
    return {
        "version": VERSION,
        "rows": gathered.row_count,
        "digest": digest,
        "columns": columns,
        "duplicates": {
            "rows": rows.repeats,
            "exact": rows.is_exact,
            "told_apart": DISTINCT_ROWS,
            "left_out": gathered.uncompared,
        },
        "correlations": _correlations(gathered),
        "label": None if label is None else _balance(label, gathered, classes),
    }


def _correlations(gathered: Gathered) -> dict[str, Any]:
    found = gathered.correlations
    return {
        "method": "pearson",
        "columns": [] if found is None else found.names,
        "figures": [] if found is None else found.figures,
        "left_out": gathered.uncorrelated,
    }


def _balance(label: str, gathered: Gathered, names: Sequence[str]) -> dict[str, Any]:
    """How many rows each class has; PlanError for a label that has no classes."""
    column = next(one for one in gathered.columns if one.name == label)
    exact = column.values.exact if column.has_values else None
    if exact is None:
        raise PlanError(
            f"profile: label={quoted(label)}: {column.field} has {'more than 65,536 different values' if column.has_values else 'no values that are counted'}; name a column of classes"
        )
    values, counts = exact
    total = int(counts.sum())
    pairs = sorted(zip(values.to_pylist(), counts.tolist(), strict=True), key=lambda pair: -pair[1])
    shares = [count / total for _, count in pairs]
    entropy = -math.fsum(share * math.log(share) for share in shares)
    return {
        "column": label,
        "classes": len(pairs),
        "counts": [[_class_name(value, names), count] for value, count in pairs[:KEPT]],
        "missing": column.missing,
        "balance": entropy / math.log(len(pairs)) if len(pairs) > 1 else None,
        "most_to_least": pairs[0][1] / pairs[-1][1] if pairs else None,
    }


def _class_name(value: Any, names: Sequence[str]) -> Any:
    is_class = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(names)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return names[value] if is_class else value
