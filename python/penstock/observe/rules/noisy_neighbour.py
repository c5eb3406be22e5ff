"""Other programs use the cores that the data needs."""

from __future__ import annotations

from penstock.observe.rules.finding import RuleFinding
from penstock.observe.rules.seen import ALL_BUSY, SeenRun
from penstock.observe.snapshot import Advice, StageFigures

#: Others use this share of the cores, and more than half as many as we do.
_MUCH = 0.25
#: A function that has a CPU for less of its time waits for something else.
_CPU = 0.2


def _computes(stage: StageFigures) -> bool:
    """Whether a stage needs cores: not one that reads, copies, or calls what waits."""
    return stage.kind == "cpu" or (stage.kind == "python" and stage.cpu >= _CPU)


def noisy_neighbour(seen: SeenRun) -> RuleFinding | None:
    """The machine's cores are busy, and many of them with other programs."""
    snapshot, slow = seen.snapshot, seen.slowest
    cores = max(1, snapshot.machine.cores)
    others = seen.cores_of_others
    if seen.is_fed or snapshot.machine.mean_cpu < ALL_BUSY or not _computes(slow):
        return None
    if others < _MUCH * cores or others < 0.5 * seen.cores_used:
        return None
    more = min(seen.usable, seen.cores_used + others) / max(0.1, seen.cores_used)
    advice = Advice(
        rule="noisy_neighbour",
        evidence=f"the machine's {cores} cores are {snapshot.machine.mean_cpu:.0%} busy, {seen.cores_used:.1f} of them with this process and {others:.1f} with others",
        remedy="other programs take the CPU that the data needs: end them, or give this job cores of its own",
        change="taskset, a CPU limit on the other job, or --exclusive",
        gain=seen.gain(slow, factor=more, cores=seen.cores_used),
    )
    return RuleFinding(
        bottleneck="other programs",
        advice=advice,
        head=f"Other programs take the CPU: the consumer waited {seen.waited:.0%} of the time for data",
    )
