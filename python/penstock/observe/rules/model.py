"""Data limits nothing: the training step does."""

from __future__ import annotations

from penstock.observe.rules.finding import RuleFinding
from penstock.observe.rules.seen import SeenRun
from penstock.observe.snapshot import Advice


def model(seen: SeenRun) -> RuleFinding | None:
    """The consumer waits for less than 5 % of the time."""
    if not seen.is_fed:
        return None
    snapshot = seen.snapshot
    gain = 1 / max(0.5, 1 - seen.waited)
    if snapshot.waited >= 0.05 and seen.is_steady:
        waited = (
            f"waited {snapshot.first_batch_s:.1f} s for the first batch, and {seen.waited:.1%} of the time since then"
        )
    else:
        waited = f"waited for it {seen.waited:.1%} of the time"
    advice = Advice(
        rule="model",
        evidence=f"half of the batches were there within {1000 * snapshot.wait.p50_s:.3g} ms, and half of the steps took {1000 * snapshot.step.p50_s:.3g} ms",
        remedy=f"faster data would gain {gain - 1:.1%} at most: look at the training step",
        change="torch.profiler, or loader.headspace() to see the step without data",
        gain=gain,
    )
    return RuleFinding(bottleneck="consumer", advice=advice, head=f"Data is not the bottleneck: the consumer {waited}")
