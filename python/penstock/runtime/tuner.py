"""Tunes a run while the consumer takes its items: cuts time into windows, asks the controller, turns what it says.

All of it happens in the consumer's thread, some additions an item. No item is made otherwise, or in another order.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from penstock.runtime.budget import Budget
from penstock.runtime.controller import Controller, Decision, Kind, Knob, Window
from penstock.runtime.stage import Stage

#: A window ends after so many seconds, if so many items came meanwhile; the first that fits.
_WINDOWS = ((0.4, 16), (1.0, 4), (2.0, 2))
_SHORTEST_S = _WINDOWS[0][0]
#: A stage whose threads wait for input for less than this share of the time has its input.
_HAS_INPUT = 0.25
#: After a change this much passes before the next window, and as many items' times as this.
_SETTLE_S, _SETTLE_ITEMS = 0.1, 1.5
#: While nothing comes, this often it is looked whether all threads of a stage are at work, and this often at most they become more.
LOOK_S, _BLIND = 0.5, 2
#: So many decisions are kept.
_KEPT = 32
#: The knob of the native pool, and the name under which the depth of the queue before the consumer is shown.
KERNELS, PREFETCH = "kernels", "prefetch"

#: Where `Stage.tuned` is so, the kind of its knob.
_KINDS: dict[str, Kind] = {"python": "function", "process": "process", "io": "read"}


class TunedCrew(Protocol):
    """The threads of a stage (see `engine.crew`). busy_s, items: so far."""

    @property
    def busy_s(self) -> float:
        """Seconds of work."""

    @property
    def waiting_s(self) -> float:
        """Seconds of waiting for input."""

    @property
    def items(self) -> int:
        """Items that were done."""

    @property
    def threads(self) -> int:
        """How many work now."""

    def resize(self, threads: int) -> int:
        """So many threads work from now on; how many there are, if the system gives no more."""

    def is_at_work(self, since_s: float) -> bool:
        """Whether all threads that may work have worked on an item each for so long."""


class Tuner:
    """The knobs of a plan's stages, from run to run. fixed: of "cpus", "memory" and "prefetch" what the user chose."""

    def __init__(
        self,
        stages: Sequence[Stage],
        budgets: Sequence[Budget],
        fixed: frozenset[str] = frozenset(),
        *,
        has_kernels: bool = True,
        clock: Callable[[], float] = time.perf_counter,
        cpu_clock: Callable[[], float] = time.process_time,
    ) -> None:
        self._budgets, self._clock, self._cpu_clock = budgets, clock, cpu_clock
        self._kinds = [stage.kind for stage in stages]
        self._computes = [stage.kind == "cpu" and not stage.is_reading for stage in stages]
        cpus = budgets[0].cpus
        self.knobs = [Knob(KERNELS, "kernels", cpus, cpus, "cpus" in fixed)] if has_kernels else []
        self._of_stage: dict[int, Knob] = {}
        for number, stage in enumerate(stages):
            if not stage.is_tunable:
                continue
            kind = _KINDS[stage.tuned_as or stage.kind]
            is_fixed = ("memory" if kind == "read" else "cpus") in fixed
            knob = Knob(stage.name, kind, stage.threads, stage.threads if is_fixed else stage.most, is_fixed)
            self._of_stage[number] = knob
            self.knobs.append(knob)
        self._controller = Controller(self.knobs, cpus)
        self._cpus = cpus
        self.decisions: deque[Decision] = deque(maxlen=_KEPT)
        self._began_at, self._is_begun = 0.0, False
        self.changes = self._blind = 0
        self._looked: tuple[float, float] | None = None
        self._cut_at = self._settle_until = self._waited_s = self._cpu_s = 0.0
        self._items = self._full = 0
        self._before: list[tuple[float, float]] = []  # of each crew, seconds of work and of waiting for input
        #: Who is told of every decision.
        self.tell: Callable[[Decision], None] | None = None

    def threads(self, number: int, stage: Stage) -> int:
        """How many threads a stage begins with."""
        knob = self._of_stage.get(number)
        return stage.threads if knob is None else knob.value

    def begin(self) -> None:
        """A run begins."""
        self._began_at, self._is_begun = self._clock(), False
        self.decisions.clear()
        self._controller.begin()
        self.changes = self._blind = 0
        self._looked = None

    # While it runs

    def after_item(self, crews: Sequence[TunedCrew], waited_s: float, *, is_full: bool) -> None:
        """The consumer has an item, for which it waited. is_full: whether as many more are ready as may be."""
        now = self._clock()
        self._blind = 0
        if not self._is_begun or (self._settle_until and now >= self._settle_until):
            self._is_begun = True
            self._cut(crews, now)
            return
        self._items += 1
        self._waited_s += waited_s
        self._full += is_full
        seconds = now - self._cut_at
        if self._settle_until or seconds < _SHORTEST_S or not self._is_window(seconds):
            return
        decisions = self._controller.look(now, self._window(crews, seconds))
        self._apply(crews, decisions)
        self._cut(crews, now)
        if decisions:
            self._settle_until = now + max(_SETTLE_S, *(self._item_s(crews, one) for one in decisions))

    def _is_window(self, seconds: float) -> bool:
        return any(seconds >= least and self._items >= items for least, items in _WINDOWS)

    def while_waiting(self, crews: Sequence[TunedCrew]) -> None:
        """Nothing came for some time: a stage whose threads all work on long items gets more, if the CPUs are idle."""
        now, cpu_s = self._clock(), self._cpu_clock()
        before, self._looked = self._looked, (now, cpu_s)
        if before is None or self._blind >= _BLIND or not 0.0 < now - before[0] <= 2 * LOOK_S:
            return
        if (cpu_s - before[1]) / (now - before[0]) > 0.5 * self._cpus:
            return
        for number, knob in self._of_stage.items():
            if knob.kind in ("function", "read") and not knob.is_fixed and crews[number].is_at_work(LOOK_S * 0.8):
                why = f"nothing came for a while, and all {knob.value} {knob.unit} wait in an item each"
                decision = self._controller.turn_blindly(now, knob, why)
                if decision is not None:
                    self._apply(crews, [decision])
                    self._blind += 1
                    self._is_begun = False  # the next item begins a window
                    return

    def note_depth(self, before: int, after: int) -> None:
        """The queue before the consumer became deeper or shallower."""
        why = "the consumer waited although the queue had been full" if after > before else "the consumer never waited"
        self._keep(Decision(self._clock(), PREFETCH, before, after, why))

    def _cut(self, crews: Sequence[TunedCrew], now: float) -> None:
        """A window begins."""
        self._settle_until, self._cut_at = 0.0, now
        self._items = self._full = 0
        self._waited_s, self._cpu_s = 0.0, self._cpu_clock()
        self._before = [(crew.busy_s, crew.waiting_s) for crew in crews]

    def _window(self, crews: Sequence[TunedCrew], seconds: float) -> Window:
        before = zip(crews, self._before, strict=True)
        busy, waiting = zip(
            *((crew.busy_s - busy_s, crew.waiting_s - waiting_s) for crew, (busy_s, waiting_s) in before), strict=True
        )
        load = {knob.name: busy[number] / (seconds * knob.value) for number, knob in self._of_stage.items()}
        computed = [one for one, computes in zip(busy, self._computes, strict=False) if computes]
        load[KERNELS] = sum(computed) / seconds
        return Window(
            seconds=seconds,
            rate=self._items / seconds,
            waited=min(1.0, self._waited_s / seconds),
            full=self._full / self._items,
            cpus=(self._cpu_clock() - self._cpu_s) / seconds,
            load={name: min(1.0, one) for name, one in load.items()},
            slowest=self._slowest([one / (seconds * crew.threads) for one, crew in zip(waiting, crews, strict=True)]),
        )

    def _slowest(self, waiting: Sequence[float]) -> str:
        """The knob of the last stage that has its input, while all behind it wait for theirs. waiting: share of the time, of each stage."""
        number = max((number for number, share in enumerate(waiting) if share < _HAS_INPUT), default=0)
        if number in self._of_stage:
            return self._of_stage[number].name
        return KERNELS if number < len(self._computes) and self._computes[number] else ""

    def _item_s(self, crews: Sequence[TunedCrew], decision: Decision) -> float:
        """How long what was in progress before a change takes to leave."""
        for number, knob in self._of_stage.items():
            if knob.name == decision.knob:
                return _SETTLE_ITEMS * crews[number].busy_s / max(1, crews[number].items)
        return 0.0

    def _apply(self, crews: Sequence[TunedCrew], decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            self._keep(decision)
            if decision.knob == KERNELS:
                for budget in self._budgets:
                    budget.cpus = decision.after
        for number, knob in self._of_stage.items():
            if any(decision.knob == knob.name for decision in decisions):
                given = crews[number].resize(knob.value)
                if given < knob.value:
                    knob.value = knob.most = given

    def _keep(self, decision: Decision) -> None:
        if self.tell is not None:
            self.tell(decision)
        self.decisions.append(replace(decision, at_s=decision.at_s - self._began_at))
        self.changes += 1

    # Reporting

    def figures(self) -> dict[str, Any]:
        """Every knob as it is, and the last decisions."""
        values = {
            knob.name: {"value": knob.value, "most": knob.most, "unit": knob.unit, "fixed": knob.is_fixed}
            for knob in self.knobs
        }
        return {"values": values, "changes": self.changes, "decisions": [one.entry for one in self.decisions.copy()]}
