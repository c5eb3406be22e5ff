"""What rules look at: a snapshot, and what follows from it."""

from __future__ import annotations

from functools import cached_property

from penstock.observe.snapshot import Snapshot, StageFigures

#: Shares of the time that the consumer waits: below the first, data limits nothing; from the second on, it limits much (as XProf has them).
ENOUGH, MUCH = 0.05, 0.20
#: From so many batches on, the first one is told apart from those behind it.
_STEADY = 4
#: A step of less than this part of the wait does next to nothing; up to this gain, its other limits count.
_LITTLE, _MOST_GUESSED = 0.1, 4.0
#: Of the cores: so much is all that a process gets, and so little is none.
ALL_BUSY, IDLE = 0.8, 0.5
#: The interpreter is full where it is held for this share of the time, and a thread that wants it waits so long, mostly. It cannot be held for more than all of it: who computes longer lets others run.
_HELD, _ALL, WAITS_S = 0.85, 1.3, 0.002
#: CPU time is sampled, so that few items tell it roughly: most of one core, which is all that the process uses, is enough.
_MOSTLY = 0.6


class SeenRun:
    """Figures of a run in the steady state. Times are in seconds a batch, `rate` in batches a second."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    # The consumer

    @property
    def is_steady(self) -> bool:
        """Whether enough batches came to leave out the first."""
        return self.snapshot.wait.count >= _STEADY

    @cached_property
    def waited(self) -> float:
        """The share of the time that the consumer waits, 0 … 1."""
        if not self.is_steady:
            return self.snapshot.waited
        return self.wait_s / max(1e-12, self.wait_s + self.step_s)

    @property
    def wait_s(self) -> float:
        """The mean wait for a batch."""
        return self.snapshot.wait.mean_s

    @property
    def step_s(self) -> float:
        """The mean work on a batch."""
        return self.snapshot.step.mean_s

    @property
    def own_step_s(self) -> float:
        """A step that waits for no interpreter: where that is full, one of the shortest."""
        return self._shortest_s if self.is_held else self.step_s

    @property
    def _shortest_s(self) -> float:
        return min(self.step_s, self.snapshot.step.p5_s or self.step_s)

    @property
    def rate(self) -> float:
        """Batches a second."""
        return 1 / max(1e-9, self.wait_s + self.step_s)

    @property
    def is_fed(self) -> bool:
        """Whether data limits nothing: neither does the consumer wait for it, nor do steps wait for the interpreter, which data needs."""
        return self.waited < ENOUGH and not self.is_held

    # Python's interpreter

    @cached_property
    def is_held(self) -> bool:
        """Whether functions of the user's and the loop fill the interpreter, so that steps wait for it, too. Where all cores are busy, whoever waits may wait for one of them."""
        machine, functions = self.snapshot.machine, self.held_by_functions
        if machine.interpreter_wait_s < WAITS_S or machine.mean_cpu >= ALL_BUSY or functions < ENOUGH:
            return False
        late_s, batch_s = self.wait_s + self.step_s - self._shortest_s, self.wait_s + self.step_s
        held, own = functions + self.held_by_loop, machine.mean_process_cpu * max(1, machine.cores)
        is_full = _HELD <= held < _ALL or (_MOSTLY <= held < _ALL and _HELD <= own < _ALL)
        return is_full and late_s >= ENOUGH * batch_s

    @property
    def held_by_functions(self) -> float:
        """The share of the time in which functions in threads hold it, 0 … 1; more where they let others run meanwhile, as NumPy does."""
        return sum(map(self.cores_of, self.functions))

    @property
    def held_by_loop(self) -> float:
        """The share of the time in which the training loop holds it."""
        return self.step_s * self.snapshot.step_cpu * self.rate

    @property
    def functions(self) -> list[StageFigures]:
        """Stages that call functions of the user's in this interpreter."""
        plan = self.snapshot.plan
        if plan.isolation:
            return []
        return [
            one for one in self.snapshot.stages if one.kind == "python" and plan.functions.get(one.name) != "process"
        ]

    # Stages

    @cached_property
    def slowest(self) -> StageFigures:
        """The stage whose threads work most of the time."""
        return max(self.snapshot.stages, key=lambda stage: stage.busy)

    def is_tunable(self, stage: StageFigures) -> bool:
        """Whether the tuner may still give it more threads."""
        value = self.snapshot.tuning.get("values", {}).get(stage.name)
        return value is not None and not value["fixed"] and value["value"] < value["most"]

    # Cores

    @property
    def usable(self) -> int:
        """The cores that this process may use."""
        return max(1, self.snapshot.machine.usable_cores)

    @property
    def cores_used(self) -> float:
        """Those that it uses, with its children."""
        machine = self.snapshot.machine
        return (machine.mean_process_cpu + machine.mean_children_cpu) * max(1, machine.cores)

    def cores_of(self, stage: StageFigures) -> float:
        """Those that the own threads of a stage use."""
        return stage.items * stage.item_s.mean_s * stage.cpu / max(1e-9, self.snapshot.elapsed_s)

    @property
    def cpu(self) -> float:
        """The share of its cores that it uses, 0 … 1."""
        return min(1.0, self.cores_used / self.usable)

    @property
    def cores_of_others(self) -> float:
        """Those that other processes use."""
        machine = self.snapshot.machine
        return max(0.0, machine.mean_cpu * max(1, machine.cores) - self.cores_used)

    # Gain

    def gain(self, *stages: StageFigures, factor: float = float("inf"), cores: float = 0.0) -> float | None:
        """The rate after a change by the rate now: until the consumer's step, another stage or the cores are the limit; see `told`.

        stages: which the change makes `factor` times as fast, and with a stage that reads all that do. They are the limit now; where they have nothing to do any more, their threads use no
        core. cores: that are used no more besides.
        """
        limits = [1 / max(1e-9, self.own_step_s)]
        kinds = {stage.kind for stage in stages} & {"io"}
        if factor == float("inf"):
            cores += sum(map(self.cores_of, stages))
        for each in self.snapshot.stages:
            if each in stages or each.kind in kinds:
                limits.append(factor * self.rate)
            elif each.busy > 0 and not self.is_tunable(each):
                limits.append(self.rate / min(1.0, each.busy))
        used = self.cores_used - min(cores, 0.95 * self.cores_used)
        if used > 0:
            limits.append(self.rate * self.usable / used)
        return self.told(min(limits) / self.rate)

    def told(self, gain: float) -> float | None:
        """A gain of at least 1. None where the loop does next to nothing, so that what it costs to hand over a batch may be the limit, which nobody measured."""
        is_guess = gain > _MOST_GUESSED and self.step_s < self.wait_s * _LITTLE
        return None if is_guess else max(1.0, gain)

    def head_of(self, stage: StageFigures) -> str:
        """The usual sentence."""
        how = "moderately" if self.waited < MUCH else "strongly"
        return (
            f"The bottleneck is the stage {stage.name!r}, busy {min(1.0, stage.busy):.0%} of the time, while the consumer waited "
            f"{self.waited:.0%} of the time for data, which limits training {how}"
        )
