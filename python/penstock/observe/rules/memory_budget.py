"""The budget of memory keeps the loader from reading ahead."""

from __future__ import annotations

from penstock.observe.rules.finding import RuleFinding
from penstock.observe.rules.seen import ALL_BUSY, SeenRun
from penstock.observe.snapshot import Advice

#: Of all the time, items wait for room.
_WAITED = 0.2


def memory_budget(seen: SeenRun) -> RuleFinding | None:
    """Items wait for room in `memory`, and the cores are not all busy."""
    snapshot = seen.snapshot
    memory = snapshot.memory
    waited = snapshot.room_waited_s / max(1e-9, snapshot.elapsed_s)
    if seen.is_fed or waited < _WAITED or seen.cpu >= ALL_BUSY or not memory:
        return None
    budget = memory["budget_bytes"]
    advice = Advice(
        rule="memory_budget",
        evidence=f"{memory['most_bytes'] / 1e6:,.1f} MB of {budget / 1e6:,.1f} MB were held, and items waited for room {min(1.0, waited):.0%} of the time",
        remedy="the memory that the loader may hold keeps it from reading ahead: give it more, or take smaller batches",
        change=f'Loader(…, memory="{max(1, round(4 * budget / 1e6))}MB") or more',
        gain=seen.gain(*snapshot.stages[:2]),
    )
    return RuleFinding(
        bottleneck="memory",
        advice=advice,
        head=f"The bottleneck is the memory budget: the consumer waited {seen.waited:.0%} of the time for data, and the loader for room",
    )
