"""What a mix gives, in a few lines."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.order.rows.mixed import input_rows
from penstock.plan.nodes import Mix, Node
from penstock.plan.tree import lane_stage
from penstock.plan.weights import Weights, quotas_of
from penstock.resolve.resolved import resolve

#: Datasets, and weights of a line, that are shown one by one.
_SHOWN = 8

_ENDS = {
    "first_exhausted": "ends with the first dataset that has no row left",
    "all_exhausted": "ends when every dataset had all its rows",
}


def explain_mix(node: Mix) -> str:
    """Of every dataset its weight, and how many of its rows an epoch takes; about so many where lanes decide when it ends."""
    rows = [_known_rows(below) for below in node.inputs]
    about = "" if node.rows is not None else "about "
    total = node.rows if node.rows is not None or None in rows else resolve(node).rows
    how = _ENDS[node.stop] if node.rows is None and total is not None else "goes on where the one before ended"
    quotas = node.quotas
    taken: Sequence[int | None] = [None] * len(rows) if total is None else input_rows(quotas, total)
    of = "" if not node.changes else f" (before step {node.changes[0][0]:,})"
    lines = [
        f"  dataset {number}: weight {weight:g}, {quota:,} of {sum(quotas):,} rows{of}"
        + ("" if some is None else f"; an epoch takes {about}{some:,} rows of {_shown(mine)}")
        for number, (weight, quota, some, mine) in enumerate(zip(node.weights, quotas, taken, rows, strict=True))
    ]
    if len(lines) > _SHOWN:
        lines = [*lines[: _SHOWN - 1], f"  … and {len(lines) - _SHOWN + 1} more"]
    changes = [f"  from step {step:,} on: {_weights(weights)}" for step, weights in node.changes]
    epoch = "as many rows as batch(…, steps=…) says" if total is None else f"{about}{total:,} rows"
    return "\n".join([f"Mix of {len(rows)} datasets: an epoch has {epoch}, and {how}", *lines, *changes])


def _known_rows(node: Node) -> int | None:
    """Rows of an epoch; None where only a lane stage knows."""
    return None if lane_stage(node) is not None else resolve(node).rows


def _shown(rows: int | None) -> str:
    return "as many as come" if rows is None else f"its {rows:,}"


def _weights(weights: Weights) -> str:
    quotas = quotas_of(weights)
    return (
        f"weights {_few([f'{weight:g}' for weight in weights])} ({_few([*map(str, quotas)])} of {sum(quotas):,} rows)"
    )


def _few(words: Sequence[str]) -> str:
    return ", ".join(words if len(words) <= _SHOWN else [*words[:_SHOWN], "…"])
