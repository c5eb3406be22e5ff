"""`cpus=` is fewer than there are."""

from __future__ import annotations

from penstock.observe.rules.finding import RuleFinding
from penstock.observe.rules.seen import SeenRun
from penstock.observe.snapshot import Advice


def fixed_cpus(seen: SeenRun) -> RuleFinding | None:
    """A stage that computes is busy, cores are idle, and the user said how many may be used."""
    plan, slow = seen.snapshot.plan, seen.slowest
    if (
        seen.is_fed
        or seen.is_held  # more threads would wait for the interpreter
        or slow.kind not in ("cpu", "python")
        or plan.cpus is None
        or plan.cpus >= seen.usable
        or slow.busy < 0.6
        or (slow.kind == "python" and slow.cpu < 0.5)  # it waits for something else
    ):
        return None
    advice = Advice(
        rule="fixed_cpus",
        evidence=f"cpus={plan.cpus} of {seen.usable} that this process may use, {slow.name!r} is busy {min(1.0, slow.busy):.0%} of the time",
        remedy="the loader may use more cores than cpus= allows",
        change=f"Loader(…, cpus={seen.usable}), or leave cpus= out",
        gain=seen.gain(slow, factor=seen.usable / plan.cpus),
    )
    return RuleFinding(bottleneck=slow.name, advice=advice)
