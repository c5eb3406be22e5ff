"""The controller of threads, on pipelines that are formulas: no threads, and no clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest

from penstock.runtime.controller import Controller, Decision, Knob, Window, rung

#: Seconds of a window with what passes after a change, as of short items.
WINDOW_S = 0.5


@dataclass
class Pipeline:
    """Stages by their knobs; each makes rate(threads) items a second, and the consumer takes `demand` at most. cpus_of: CPUs that threads at work use."""

    rates: dict[str, Callable[[int], float]]
    knobs: list[Knob]
    cpus: int = 8
    demand: float = 1e9
    cpus_of: Callable[[str, int], float] = lambda _, threads: 0.0 * threads
    noise: float = 0.0
    now_s: float = 0.0
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    decisions: list[Decision] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.controller = Controller(self.knobs, self.cpus)

    def value(self, name: str) -> int:
        return next(knob.value for knob in self.knobs if knob.name == name)

    def window(self) -> Window:
        makes = {knob.name: self.rates[knob.name](knob.value) for knob in self.knobs}
        slowest = min(makes, key=lambda name: makes[name])
        rate = min(makes[slowest], self.demand)
        hungry = makes[slowest] < self.demand
        load = {name: rate / one for name, one in makes.items()}
        return Window(
            seconds=WINDOW_S,
            rate=rate * (1 + self.noise * float(self.random.uniform(-1, 1))),
            waited=1 - makes[slowest] / self.demand if hungry else 0.0,
            full=0.0 if hungry else 1.0,
            cpus=sum(load[name] * self.cpus_of(name, self.value(name)) for name in makes),
            load=load,
            slowest=slowest,
        )

    def run(self, seconds: float) -> list[Decision]:
        until, found = self.now_s + seconds, []
        while self.now_s < until:
            self.now_s += WINDOW_S
            found += self.controller.look(self.now_s, self.window())
        self.decisions += found
        return found


def function(value: int = 4, most: int = 64) -> Knob:
    return Knob("map f", "function", value, most)


def test_a_function_that_waits_gets_all_threads_that_it_may_have_within_five_seconds() -> None:
    pipeline = Pipeline({"map f": lambda threads: 50.0 * threads}, [function()])
    pipeline.run(5)
    assert pipeline.value("map f") == 64
    assert pipeline.decisions[0].after == 16, "idle CPUs: four times as many"


@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_a_function_that_holds_the_interpreter_gets_one_thread_within_five_seconds(noise: float) -> None:
    pipeline = Pipeline(
        {"map f": lambda threads: 500.0 / threads**0.1}, [function()], cpus_of=lambda *_: 1.0, noise=noise
    )
    pipeline.run(4)
    assert pipeline.value("map f") == 1


def test_a_function_that_releases_the_interpreter_gets_a_thread_a_cpu() -> None:
    pipeline = Pipeline(
        {"map f": lambda threads: 100.0 * min(threads, 8)}, [function()], cpus_of=lambda _, threads: min(threads, 8)
    )
    pipeline.run(5)
    assert pipeline.value("map f") == 8
    assert max(one.after for one in pipeline.decisions) == 8, "with all CPUs used, more are not tried"


def test_more_threads_stop_where_something_else_limits() -> None:
    """A service that answers ten at once: 16 are no better than 12, and 8 are worse."""
    pipeline = Pipeline({"map f": lambda threads: 50.0 * min(threads, 10)}, [function()])
    pipeline.run(60)
    assert pipeline.value("map f") in (8, 16)
    assert 50.0 * min(pipeline.value("map f"), 10) >= 0.8 * 500


def test_what_fails_is_tried_less_and_less_often() -> None:
    pipeline = Pipeline({"map f": lambda _: 500.0}, [Knob("map f", "process", 2, 8)], cpus_of=lambda *_: 1.0)
    pipeline.run(600)
    tries = [one.at_s for one in pipeline.decisions if one.after > one.before]
    gaps = [later - earlier for earlier, later in pairwise(tries)]
    assert 3 < len(tries) < 10
    assert gaps == sorted(gaps)
    assert pipeline.value("map f") == 2


def test_cores_are_left_to_a_slow_consumer() -> None:
    pipeline = Pipeline(
        {
            "kernels": lambda threads: 100.0 * threads,
            "map f": lambda threads: 100.0 * threads,
            "read": lambda n: 50.0 * n,
        },
        [Knob("kernels", "kernels", 8, 8), function(4), Knob("read", "read", 32, 32)],
        demand=90.0,
    )
    pipeline.run(20)
    assert pipeline.value("kernels") == 2, "one thread is 90 % busy: too little for what varies"
    assert pipeline.value("map f") == 2
    assert pipeline.value("read") == 4
    assert all(one.after >= one.before // 2 for one in pipeline.decisions), "half of it at once, at most"
    assert "full queues wait for the consumer" in pipeline.decisions[0].why


def test_what_was_given_up_comes_back_at_once() -> None:
    pipeline = Pipeline({"kernels": lambda threads: 100.0 * threads}, [Knob("kernels", "kernels", 8, 8)], demand=90.0)
    pipeline.run(10)
    assert pipeline.value("kernels") == 2
    pipeline.demand = 700.0
    (back,) = pipeline.run(WINDOW_S / 2)
    assert (back.after, pipeline.value("kernels")) == (8, 8)
    assert "waits again" in back.why
    pipeline.demand = 90.0
    assert pipeline.run(3) == [], "given up less readily from then on"


def test_a_trial_that_makes_the_consumer_wait_is_taken_back() -> None:
    pipeline = Pipeline(
        {"kernels": lambda threads: 1000.0 if threads > 1 else 85.0}, [Knob("kernels", "kernels", 2, 2)], demand=90.0
    )
    pipeline.run(3)
    assert [(one.before, one.after) for one in pipeline.decisions] == [(2, 1), (1, 2)]
    assert pipeline.decisions[1].why == "back: the consumer waited 6%"


@pytest.mark.parametrize("demand", [90.0, 1e9])
def test_what_is_fixed_stays(demand: float) -> None:
    knobs = [Knob("kernels", "kernels", 8, 8, is_fixed=True), Knob("map f", "function", 4, 64, is_fixed=True)]
    pipeline = Pipeline({"kernels": lambda _: 1000.0, "map f": lambda _: 1000.0}, knobs, demand=demand)
    assert pipeline.run(60) == []


def test_a_trial_is_not_judged_by_another_run() -> None:
    pipeline = Pipeline({"map f": lambda threads: 50.0 * threads}, [function()])
    pipeline.run(WINDOW_S / 2)
    assert pipeline.value("map f") == 16
    pipeline.controller.begin()
    pipeline.rates["map f"] = lambda _: 1.0
    (change,) = pipeline.run(WINDOW_S / 2)
    assert "back" not in change.why


def test_values_stay_within_their_limits_whatever_is_seen() -> None:
    random = np.random.default_rng(1)
    knobs = [Knob("kernels", "kernels", 6, 6), function(4, 9), Knob("read", "read", 5, 7), Knob("p", "process", 3, 3)]
    names = [knob.name for knob in knobs]
    controller = Controller(knobs, 6)
    for look in range(1_000):
        seen = Window(
            seconds=float(random.choice([0.25, 1.0, 30.0])),
            rate=float(random.choice([0.0, 1.0, 1e6])),
            waited=float(random.choice([0.0, 0.05, 1.0])),
            full=float(random.choice([0.0, 1.0])),
            cpus=float(random.uniform(0, 8)),
            load={name: float(random.uniform(0, 1)) for name in names if random.random() < 0.9},
            slowest=str(random.choice([*names, "", "unknown"])),
        )
        for decision in controller.look(float(look), seen):
            assert decision.before != decision.after
            assert next(knob.value for knob in knobs if knob.name == decision.knob) == decision.after
            assert decision.why
        assert all(1 <= knob.value <= knob.most for knob in knobs)


def test_sizes_of_the_native_pool_are_few() -> None:
    sizes = {rung(threads) for threads in range(1, 129)}
    assert sorted(sizes) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128]
    assert all(rung(threads) >= threads for threads in range(1, 129))
