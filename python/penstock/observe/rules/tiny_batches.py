"""Batches are so small that what each costs, whatever it holds, is most of it."""

from __future__ import annotations

from penstock.observe.rules.finding import RuleFinding
from penstock.observe.rules.seen import SeenRun
from penstock.observe.snapshot import Advice

#: Fewer rows a batch, and less time for each, than this.
_ROWS, _SHORT_S = 32, 0.001
#: Rows are moved at about this speed.
_BYTES_PER_S = 10e9


def tiny_batches(seen: SeenRun) -> RuleFinding | None:
    """A batch of some rows takes less than a millisecond, and the step on it even less."""
    snapshot = seen.snapshot
    rows = snapshot.plan.batch_rows
    each_s = seen.wait_s + seen.step_s
    if (
        seen.is_fed
        or not rows
        or rows > _ROWS
        or each_s >= _SHORT_S
        or not seen.is_steady
        or seen.slowest.kind != "cpu"  # reading and functions cost something for each row
    ):
        return None
    more = max(64, 8 * rows)
    moved_s = more * snapshot.bytes / max(1, snapshot.samples) / _BYTES_PER_S
    advice = Advice(
        rule="tiny_batches",
        evidence=f"{rows} rows a batch, {1e6 * each_s:,.0f} µs for each batch",
        remedy="what a batch costs, however small, is most of it: take more rows at once",
        change=f"batch({more})",
        gain=more / rows * each_s / max(1e-12, each_s + moved_s),
    )
    return RuleFinding(
        bottleneck="batch size",
        advice=advice,
        head=f"Batches are too small: the consumer waited {seen.waited:.0%} of the time for batches of {rows} rows",
    )
