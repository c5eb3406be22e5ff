"""The bottleneck, in words, from the stages' figures alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.observe.metrics import Meter

#: Below this share of time spent waiting for data, data does not limit the training.
_ENOUGH = 0.05

_REMEDY = {
    "io": "reading is the limit: put the data on a faster disk, or combine small files into larger ones",
    "cpu": "the CPU is the limit: give the process more cores (cpus=…), or make the ops cheaper (smaller images, fewer ops)",
    "python": "your own Python function is the limit: work on whole batches with map instead of map_rows, and in NumPy, or in processes (workers='process')",
    "copy": "the copy to the device is the limit: deliver a smaller dtype (uint8 or bfloat16)",
}


@dataclass(frozen=True)
class Verdict:
    """What limits a run. bottleneck: a stage's name, or "consumer". waited: share of the time that the consumer waited, 0 … 1."""

    bottleneck: str
    waited: float
    text: str


def judge(meters: Sequence[Meter], elapsed_s: float, waited_s: float, store: str = "") -> Verdict:
    """The busiest stage if the consumer waited, else the consumer.

    store: what limits reading from a store (see `observe.store`), for a bottleneck in reading.
    """
    waited = min(1.0, waited_s / max(elapsed_s, 1e-9))
    if not any(meter.items for meter in meters):
        return Verdict("nothing", 0.0, "No batch was made yet.")
    if waited < _ENOUGH:
        text = f"Data is not the bottleneck: the consumer waited for it {waited:.1%} of the time."
        return Verdict("consumer", waited, text)
    slowest = max(meters, key=lambda meter: meter.busy_s / meter.thread_s(elapsed_s))
    busy = min(1.0, slowest.busy_s / slowest.thread_s(elapsed_s))
    text = (
        f"The bottleneck is the stage {slowest.name!r}, busy {busy:.0%} of the time, while the consumer waited "
        f"{waited:.0%} of the time for data; {(slowest.kind == 'io' and store) or _REMEDY.get(slowest.kind, '')}."
    )
    return Verdict(slowest.name, waited, text)
