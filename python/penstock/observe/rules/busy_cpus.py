"""The cores are busy with ops: fewer of these, or more cores."""

from __future__ import annotations

from penstock.observe.rules.finding import RuleFinding
from penstock.observe.rules.seen import SeenRun
from penstock.observe.snapshot import Advice


def busy_cpus(seen: SeenRun) -> RuleFinding | None:
    """A stage that computes is the slowest."""
    snapshot, slow = seen.snapshot, seen.slowest
    if seen.is_fed or slow.kind != "cpu":
        return None
    decoded = sum(snapshot.decoders.values())
    advice = Advice(
        rule="decode" if decoded and "transform" in slow.name else "busy_cpus",
        evidence=f"{slow.name!r} is busy {min(1.0, slow.busy):.0%} of the time, and {seen.cores_used:.1f} of {seen.usable} cores are used"
        + (f"; {decoded / max(1e-9, snapshot.elapsed_s):,.0f} images are decoded a second" if decoded else ""),
        remedy="the CPU is the limit: give the process more cores (cpus=…), or make the ops cheaper (smaller images, fewer ops)",
        change="images stored at the size that is trained on, dataset.cache() behind decoding, or the end of the chain on the GPU (device='cuda')"
        if decoded
        else "fewer ops, or dataset.cache() behind them",
        gain=seen.gain(slow, cores=min(seen.cores_used, slow.busy * seen.usable)),
    )
    return RuleFinding(bottleneck=slow.name, advice=advice)
