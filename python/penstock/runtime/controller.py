"""Decides how many threads stages work with, from what was measured; knows neither threads nor clocks.

Three rules, each change a trial that the next measurement confirms or takes back:

1. The consumer waits: the slowest stage gets twice the threads. They stay if the rate rose; if not, it tries half of what it had, since functions
   that hold the interpreter are no faster on many threads.
2. Full queues wait for the consumer: what a stage does not need for that is given up, so that the cores are the training's.
3. The consumer waits again: what was given up comes back at once, and is given up less readily from then on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

#: Shares of the time that a consumer waits: from this on it is hungry, below this it is fed.
HUNGRY, FED = 0.10, 0.03
#: More threads must raise the rate by this much; fewer may lower it by this much.
_GAIN, _LOSS = 1.08, 0.98
#: Where the process uses so much of its CPUs, threads beyond their number make nothing faster.
_CPUS_USED = 0.7
#: A process that uses less of its CPUs than this waits for something else: it gets four times the threads.
_IDLE = 0.25
#: What is given up leaves this much more than is needed. Reading answers to requests varies more.
_ROOM, _READING_ROOM = 1.3, 2.0
#: Seconds of full queues before something is given up; before a change that failed is tried again, at first and at most.
_FED_S, _HOLD_S, _MOST_HOLD_S = 0.5, 4.0, 300.0

Kind = Literal["kernels", "function", "process", "read"]
Aim = Literal["more", "fewer", "spare"]


@dataclass
class Knob:
    """A number of threads, 1 … most. kind: "kernels" is the native pool, "process" a function in processes. is_fixed: by the user."""

    name: str
    kind: Kind
    value: int
    most: int
    is_fixed: bool = False
    #: What it was before some was given up, 0 where nothing was.
    needed: int = 0
    _held: dict[Aim, tuple[float, float]] = field(default_factory=dict)  # until when, and for how long

    @property
    def unit(self) -> str:
        """What is counted."""
        return (
            "batches at once in processes"
            if self.kind == "process"
            else "reads at once"
            if self.kind == "read"
            else "threads"
        )

    def hold(self, aim: Aim, now_s: float) -> None:
        """That did not help: not again for a while, each time for longer."""
        _, before_s = self._held.get(aim, (0.0, _HOLD_S / 2))
        hold_s = min(2 * before_s, _MOST_HOLD_S)
        self._held[aim] = now_s + hold_s, hold_s

    def is_held(self, aim: Aim, now_s: float) -> bool:
        """Whether that failed lately."""
        return now_s < self._held.get(aim, (0.0, 0.0))[0]


@dataclass(frozen=True)
class Window:
    """What was seen since the last look.

    rate: items a second. waited: share of the time that the consumer waited. full: share of the times that it found the queue full. cpus: how
    many CPUs the process used. load: of each knob, the share of its threads' time that was work, 0 … 1. slowest: the knob of the stage that the
    others wait for, "" if it has none.
    """

    seconds: float
    rate: float
    waited: float
    full: float
    cpus: float
    load: Mapping[str, float]
    slowest: str = ""


@dataclass(frozen=True)
class Decision:
    """A change of a knob. at_s: by the clock of whoever asks."""

    at_s: float
    knob: str
    before: int
    after: int
    why: str

    @property
    def entry(self) -> dict[str, float | int | str]:
        """As plain values."""
        return {"at_s": round(self.at_s, 3), "knob": self.knob, "from": self.before, "to": self.after, "why": self.why}


@dataclass(frozen=True)
class _Trial:
    """A change that is not confirmed yet, with what was measured before it."""

    knob: Knob
    aim: Aim
    before: int
    rate: float
    waited: float

    def failure(self, seen: Window) -> str:
        """Why it is taken back; "" if it is not."""
        change = f"{self.knob.value} {self.knob.unit} made {_change(seen.rate, self.rate)}"
        if self.aim == "spare":
            return f"the consumer waited {seen.waited:.0%}" if seen.waited > max(FED, self.waited + 0.02) else ""
        if seen.waited < HUNGRY:
            return ""
        return change if seen.rate < (_GAIN if self.aim == "more" else _LOSS) * self.rate else ""


class Controller:
    """Turns knobs. cpus: how many CPUs the process may use."""

    def __init__(self, knobs: Sequence[Knob], cpus: int) -> None:
        self.knobs, self._cpus = [knob for knob in knobs if not knob.is_fixed], cpus
        self._trial: _Trial | None = None
        self._fed_s = 0.0

    def begin(self) -> None:
        """Another run begins: nothing that was measured before is compared with what comes."""
        self._trial, self._fed_s = None, 0.0

    def look(self, now_s: float, seen: Window) -> list[Decision]:
        """What to change now; the knobs have their new values."""
        trial, self._trial = self._trial, None
        if trial is not None and (why := trial.failure(seen)):
            trial.knob.hold(trial.aim, now_s)
            return [self._turn(now_s, trial.knob, trial.before, f"back: {why}")]
        if seen.waited >= HUNGRY:
            self._fed_s = 0.0
            return self._restored(now_s, seen) or self._tried(now_s, seen)
        if seen.waited >= FED or seen.full < 0.5:
            self._fed_s = 0.0
            return []
        self._fed_s += seen.seconds
        return self._spared(now_s, seen) if self._fed_s >= _FED_S else []

    def turn_blindly(self, now_s: float, knob: Knob, why: str) -> Decision | None:
        """Twice the threads for a stage from which nothing came yet, so that there is nothing to compare with."""
        self._trial = None
        return self._turn(now_s, knob, min(knob.most, 2 * knob.value), why) if knob.value < knob.most else None

    def _turn(self, now_s: float, knob: Knob, value: int, why: str) -> Decision:
        before, knob.value = knob.value, value
        knob.needed = knob.needed if knob.needed > value else 0
        return Decision(now_s, knob.name, before, value, why)

    def _restored(self, now_s: float, seen: Window) -> list[Decision]:
        """What was given up comes back."""
        found = []
        for knob in self.knobs:
            if knob.needed > knob.value:
                knob.hold("spare", now_s)
                found.append(self._turn(now_s, knob, knob.needed, f"the consumer waits again, {seen.waited:.0%}"))
        return found

    def _tried(self, now_s: float, seen: Window) -> list[Decision]:
        """More threads for the slowest stage, or fewer."""
        knob = next((knob for knob in self.knobs if knob.name == seen.slowest), None)
        if knob is None:
            return []
        why = f"the consumer waited {seen.waited:.0%}, and all others for this"
        if self._may_grow(knob, seen) and not knob.is_held("more", now_s):
            factor = 4 if seen.cpus < _IDLE * self._cpus and knob.kind != "process" else 2
            return [self._try(now_s, seen, knob, "more", min(knob.most, factor * knob.value), why)]
        if knob.kind == "function" and knob.value > 1 and not knob.is_held("fewer", now_s):
            return [self._try(now_s, seen, knob, "fewer", knob.value // 2, f"{why}; fewer may do as much")]
        return []

    def _may_grow(self, knob: Knob, seen: Window) -> bool:
        """Beyond one thread a CPU only while CPUs are idle."""
        return knob.value < knob.most and (knob.value < self._cpus or seen.cpus < _CPUS_USED * self._cpus)

    def _spared(self, now_s: float, seen: Window) -> list[Decision]:
        """Gives up what one knob does not need, half of it at most."""
        for knob in self.knobs:
            load = seen.load.get(knob.name, 1.0)
            room = _READING_ROOM if knob.kind == "read" else _ROOM
            value = max(1, math.ceil(room * load * knob.value), knob.value // 2)
            value = rung(value) if knob.kind == "kernels" else value
            if value < knob.value and not knob.is_held("spare", now_s):
                why = f"full queues wait for the consumer, and {knob.value} are busy {load:.0%}"
                needed = max(knob.needed, knob.value)
                decision = self._try(now_s, seen, knob, "spare", value, why)
                knob.needed = needed
                return [decision]
        return []

    def _try(self, now_s: float, seen: Window, knob: Knob, aim: Aim, value: int, why: str) -> Decision:
        self._trial = _Trial(knob, aim, knob.value, seen.rate, seen.waited)
        return self._turn(now_s, knob, value, why)


def rung(threads: int) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, 16, … threads: each size of the native pool is one that stays, so there are few."""
    power = 1 << (threads - 1).bit_length()
    return power * 3 // 4 if power >= 4 and threads <= power * 3 // 4 else power


def _change(rate: float, before: float) -> str:
    return (
        "nothing faster"
        if not before
        else f"{abs(rate / before - 1):.0%} {'more' if rate > before else 'less'} a second"
    )
