"""The bottleneck, in words, from the stages' figures alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.observe.metrics import Meter

#: Below this share of time spent waiting for data, data does not limit the training.
_ENOUGH = 0.05
#: From so many items on, the first one is told apart from those behind it.
_STEADY = 4

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


@dataclass(frozen=True)
class Waits:
    """How long the consumer waited: in all, and for the first of the items that it took."""

    all_s: float
    first_s: float
    items: int

    def share(self, elapsed_s: float) -> float:
        """Of the time, 0 … 1."""
        return min(1.0, self.all_s / max(elapsed_s, 1e-9))

    def share_since(self, elapsed_s: float) -> float:
        """Of the time since the first item: before it files are opened, kernels compiled. Of all of it while there were few."""
        if self.items < _STEADY:
            return self.share(elapsed_s)
        return min(1.0, (self.all_s - self.first_s) / max(elapsed_s - self.first_s, 1e-9))


def judge(meters: Sequence[Meter], elapsed_s: float, waits: Waits, store: str = "") -> Verdict:
    """The busiest stage if the consumer waited, else the consumer.

    store: what limits reading from a store (see `observe.store`), for a bottleneck in reading.
    """
    waited, since = waits.share(elapsed_s), waits.share_since(elapsed_s)
    if not any(meter.items for meter in meters):
        return Verdict("nothing", 0.0, "No batch was made yet.")
    if waited < _ENOUGH:
        text = f"Data is not the bottleneck: the consumer waited for it {waited:.1%} of the time."
        return Verdict("consumer", waited, text)
    if since < _ENOUGH:
        text = f"Data is not the bottleneck: the consumer waited {waits.first_s:.1f} s for the first batch, and {since:.1%} of the time since then."
        return Verdict("consumer", waited, text)
    slowest = max(meters, key=lambda meter: meter.busy_s / meter.thread_s(elapsed_s))
    busy = min(1.0, slowest.busy_s / slowest.thread_s(elapsed_s))
    text = (
        f"The bottleneck is the stage {slowest.name!r}, busy {busy:.0%} of the time, while the consumer waited "
        f"{waited:.0%} of the time for data; {(slowest.kind == 'io' and store) or _REMEDY.get(slowest.kind, '')}."
    )
    return Verdict(slowest.name, waited, text)
