"""The slowest stage, where no rule knows more."""

from __future__ import annotations

from penstock.observe.rules.finding import RuleFinding
from penstock.observe.rules.seen import SeenRun
from penstock.observe.snapshot import Advice


def slow_stage(seen: SeenRun) -> RuleFinding | None:
    """The last rule: the stage that is busy most."""
    if seen.is_fed:
        return None
    slow = seen.slowest
    advice = Advice(
        rule="slow_stage",
        evidence=f"{slow.name!r} takes {1000 * slow.item_s.p50_s:,.3g} ms an item on {slow.threads} threads",
        remedy="have fewer rows a second to make, or more on their way",
        change="prefetch=8, or a smaller batch",
        gain=seen.gain(slow),
    )
    return RuleFinding(bottleneck=slow.name, advice=advice)
