"""Nothing is busy, and too little is on its way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.observe.rules.finding import RuleFinding
from penstock.observe.rules.seen import IDLE, SeenRun
from penstock.observe.snapshot import Advice

#: A stage that works for less of the time has time.
_BUSY = 0.75


def few_ahead(seen: SeenRun) -> RuleFinding | None:
    """No stage is busy, nor are the cores: what was fixed keeps them so."""
    snapshot, slow = seen.snapshot, seen.slowest
    plan = snapshot.plan
    if seen.is_fed or slow.busy >= _BUSY or seen.cpu >= IDLE:
        return None
    fixed = {name: value for name, value in (("prefetch", plan.prefetch), ("cpus", plan.cpus)) if value is not None}
    change = (
        f"leave {' and '.join(f'{name}={value}' for name, value in fixed.items())} out, which are tuned then"
        if fixed
        else "a larger batch"
        if _is_at_most(snapshot.tuning)
        else "a larger batch, or prefetch=8"
    )
    advice = Advice(
        rule="few_ahead",
        evidence=f"the busiest stage, {slow.name!r}, works {slow.busy:.0%} of the time, the CPUs {seen.cpu:.0%}, and {snapshot.ready:.0%} of the batches were ready",
        remedy="everything waits for everything: have more on its way at once",
        change=change,
        gain=seen.gain(),
    )
    return RuleFinding(
        bottleneck="prefetch",
        advice=advice,
        head=f"Too little is made ahead: the consumer waited {seen.waited:.0%} of the time for data, while no stage was busy",
    )


def _is_at_most(tuning: Mapping[str, Any]) -> bool:
    """Whether the tuner has as many batches made ahead as fit already."""
    found = tuning.get("values", {}).get("prefetch")
    return found is not None and found["value"] >= found["most"]
