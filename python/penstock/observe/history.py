"""What a loader's snapshots said over time, in a few hundred points however long it ran."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from penstock.observe.figure_groups import StorageFigures
from penstock.observe.snapshot import Snapshot

#: A history has between half of so many points and all of them, an even number: where it is full, neighbours become one.
MOST_POINTS = 240
#: Decisions of the tuner that are kept: the first of them, and the last.
_DECISIONS = 64
#: By how much a machine's clock and a loader's own time may differ between two snapshots.
_CLOCK_S = 5.0
_NOTES = 8
#: Letters of what a decision says.
_WORDS = 200
#: Of a file, so many loaders have all points, and those of 1,000 ranks beyond them a few each.
_LOADERS, _FEW_POINTS = 16, 24
#: What a point holds besides counts: gauges, of which it keeps the mean.
GAUGES = ("held_bytes", "cpu", "process_cpu", "kernel_time", "sm", "tensor", "gpu_bytes", "power_w", "in_flight")


@dataclass
class Point:
    """A piece of the time: from the point before it to `end_s`. gauges: by name, sum and number of what was seen. low, high: of the rates that it was made of."""

    end_s: float
    seconds: float
    samples: float = 0.0
    batches: float = 0.0
    waited_s: float = 0.0
    ready: float = 0.0
    requests: float = 0.0
    again: float = 0.0
    low: float = 0.0
    high: float = 0.0
    gauges: dict[str, tuple[float, int]] = field(default_factory=dict)

    def rate(self, count: float) -> float:
        """A count of this point, a second."""
        return count / max(self.seconds, 1e-9)

    def gauge(self, name: str) -> float | None:
        """A gauge's mean; None where nothing said it."""
        total, number = self.gauges.get(name, (0.0, 0))
        return total / number if number else None

    def joined(self, later: Point) -> Point:
        """This one and the next as one."""
        gauges = {
            name: (self.gauges.get(name, (0.0, 0))[0] + more, self.gauges.get(name, (0.0, 0))[1] + number)
            for name, (more, number) in later.gauges.items()
        }
        return Point(
            end_s=later.end_s,
            seconds=self.seconds + later.seconds,
            samples=self.samples + later.samples,
            batches=self.batches + later.batches,
            waited_s=self.waited_s + later.waited_s,
            ready=self.ready + later.ready,
            requests=self.requests + later.requests,
            again=self.again + later.again,
            low=min(self.low, later.low),
            high=max(self.high, later.high),
            gauges=self.gauges | gauges,
        )


class History:
    """One loader's. last: its last snapshot. decisions: of the tuner, with the time on this history's axis. notes: what is odd about the times.

    Time is the loader's own, which no clock that is set can change: where its pipeline was started anew, it goes on behind the one before.
    """

    def __init__(self, most_points: int = MOST_POINTS) -> None:
        self._most_points = most_points
        self.last: Snapshot | None = None
        self.points: list[Point] = []
        self.decisions: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.snapshots = self.restarts = self.decisions_left_out = 0
        self.samples = 0
        self.seconds = 0.0
        self._before_s = 0.0  # of the pipelines before this one
        #: Snapshots that become a point, and what there is of the next one: of how many, as one.
        self._group, self._joined, self._pending = 1, 0, list[Point]()
        self._seen = set[tuple[Any, ...]]()

    @property
    def now(self) -> Snapshot:
        """Its last snapshot; the empty one where there is none."""
        return self.last or Snapshot()

    def with_now(self, now: Snapshot) -> History:
        """A copy that ends with the figures now, while another thread adds to this one."""
        copy = History(self._most_points)
        vars(copy).update({name: [*value] if isinstance(value, list) else value for name, value in vars(self).items()})
        copy.add(now)
        return copy

    def add(self, new: Snapshot) -> None:
        """The next snapshot; always by the same thread."""
        old = self.last
        self.snapshots += 1
        if (
            old is not None
            and old.loader == new.loader
            and (new.elapsed_s, new.samples) == (old.elapsed_s, old.samples)
        ):
            self.last = new
            return
        if old is None or new.elapsed_s < old.elapsed_s or new.samples < old.samples:
            if old is not None:
                self.restarts += 1
                self._before_s += old.elapsed_s
            old = Snapshot()
        else:
            self._check_clock(old, new)
        self.last = new
        self.samples += new.samples - old.samples
        self.seconds = self._before_s + new.elapsed_s
        self._keep(self._point(old, new))
        self._note_decisions(new)

    def _point(self, old: Snapshot, new: Snapshot) -> Point:
        seconds, store, before = (
            new.elapsed_s - old.elapsed_s,
            new.storage or StorageFigures(),
            old.storage or StorageFigures(),
        )
        point = Point(self.seconds, seconds)
        point.samples = new.samples - old.samples
        point.batches = max(0, new.batches - old.batches)
        point.waited_s = max(0.0, new.waited_s - old.waited_s)
        point.ready = max(0.0, new.ready * new.batches - old.ready * old.batches)
        point.requests = max(0, store.requests - before.requests)
        point.again = max(0, store.retries - before.retries)
        point.low = point.high = point.rate(point.samples)
        point.gauges = {name: (value, 1) for name, value in _gauges(new).items() if value is not None}
        return point

    def _keep(self, point: Point) -> None:
        self._pending = [self._pending[0].joined(point) if self._pending else point]
        self._joined += 1
        if self._joined < self._group:
            return
        self.points += self._pending
        self._joined, self._pending = 0, []
        if len(self.points) == self._most_points:
            self.points = [one.joined(other) for one, other in zip(self.points[::2], self.points[1::2], strict=True)]
            self._group *= 2

    def all_points(self) -> list[Point]:
        """With what is not a whole point yet."""
        return [*self.points, *self._pending]

    def _check_clock(self, old: Snapshot, new: Snapshot) -> None:
        jump = (new.at - old.at) - (new.elapsed_s - old.elapsed_s)
        if old.at and new.at and abs(jump) > _CLOCK_S and len(self.notes) < _NOTES:
            self.notes.append(
                f"after {self.seconds:,.0f} s the machine's clock went {abs(jump):,.0f} s {'ahead of' if jump > 0 else 'behind'} the loader's own time: it was set, or the machine slept, "
                f"or the loader rested; times below are the loader's own"
            )

    def _note_decisions(self, new: Snapshot) -> None:
        """A snapshot holds the last ones, of which the one before may have held some."""
        seen = set[tuple[Any, ...]]()
        for one in _decisions(new):
            seen.add(key := (self.restarts, *one.values()))
            if key in self._seen:
                continue
            self.decisions.append({**one, "at_s": self._before_s + one["at_s"]})
            if len(self.decisions) > _DECISIONS:
                del self.decisions[_DECISIONS // 2]
                self.decisions_left_out += 1
        self._seen = seen


def histories_of(snapshots: Iterable[Snapshot]) -> list[History]:
    """A history a loader, those with the most samples first."""
    found: dict[tuple[Any, ...], History] = {}
    for one in snapshots:
        key = (one.loader.host, one.loader.pid, one.loader.number, round(one.loader.started_at))
        if key not in found:
            found[key] = History(MOST_POINTS if len(found) < _LOADERS else _FEW_POINTS)
        found[key].add(one)
    return sorted(found.values(), key=lambda one: (-one.samples, one.now.loader.rank))


def _gauges(new: Snapshot) -> dict[str, float | None]:
    machine = new.machine if new.machine.cores else None
    return {
        "held_bytes": new.memory.held_bytes if new.memory else None,
        "cpu": machine.cpu if machine else None,
        "process_cpu": machine.process_cpu if machine else None,
        "kernel_time": _mean([one.kernel_time for one in new.gpus]),
        "sm": _mean([one.sm for one in new.gpus]),
        "tensor": _mean([one.tensor for one in new.gpus]),
        "gpu_bytes": float(sum(one.memory_bytes for one in new.gpus)) if new.gpus else None,
        "power_w": _mean([one.power_w for one in new.gpus]),
        "in_flight": new.storage.in_flight if new.storage else None,
    }


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _decisions(new: Snapshot) -> list[dict[str, Any]]:
    return [
        {
            "at_s": one.at_s,
            "knob": one.knob[:_WORDS],
            "from": str(one.from_),
            "to": str(one.to),
            "why": one.why[:_WORDS],
        }
        for one in new.tuning.decisions
    ]
