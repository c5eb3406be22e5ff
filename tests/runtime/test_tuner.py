"""Threads that are tuned: of a run whose crews are real, and of loaders."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.order.steps.cursor import Work
from penstock.runtime.budget import Budget
from penstock.runtime.channel import Closed, Gate
from penstock.runtime.crew import Crew
from penstock.runtime.run import Run
from penstock.runtime.stage import Item, Stage
from penstock.runtime.tune import Depth
from penstock.runtime.tuner import LOOK_S, Tuner
from support.seams import lowered_of

#: What tests of other files left in this process.
_of_others: set[threading.Thread] = set()


def threads_of_penstock() -> list[str]:
    found = [thread for thread in threading.enumerate() if thread not in _of_others]
    return [thread.name for thread in found if thread.name.startswith("penstock-")]


@pytest.fixture(autouse=True, scope="module")
def others() -> None:
    _of_others.update(threading.enumerate())


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert [name for name in threads_of_penstock() if "penstock-tuned" in name or "penstock-map" in name] == []


def item_of(work: Work) -> Item:
    return Item(work=work, rows_per_step=1, find_ids=lambda: np.array([work.step]))


# Threads rest, and end


def test_a_gate_lets_the_first_through_and_ends_with_the_others() -> None:
    gate, passed = Gate(1), list[str]()

    def go(number: int) -> None:
        try:
            gate.wait(number)
            passed.append(f"{number} went on")
        except Closed:
            passed.append(f"{number} ended")

    threads = [threading.Thread(target=go, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    gate.wait(0)
    gate.open_for(2)
    threads[0].join(60)
    assert passed == ["1 went on"]
    gate.close()
    threads[1].join(60)
    assert passed == ["1 went on", "2 ended"]


class Turned(Tuner):
    """Turns its stage to the next of some numbers after every item."""

    def __init__(self, stages: tuple[Stage, ...], sequence: list[int]) -> None:
        super().__init__(stages, (Budget(1 << 30),), has_kernels=False)
        self.sequence = sequence

    def after_item(self, crews: Any, waited_s: float, *, is_full: bool) -> None:
        self.sequence.append(self.sequence.pop(0))
        crews[0].resize(self.sequence[0])


class Counted:
    """A stage's work that knows how many threads are in it."""

    def __init__(self) -> None:
        self.inside = self.most = 0
        self.lock = threading.Lock()

    def __call__(self, work: Work) -> Item:
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        time.sleep(0.0005 * (work.step % 3))
        with self.lock:
            self.inside -= 1
        return item_of(work)


@pytest.mark.parametrize("ending", ["end", "close", "error"])
def test_items_come_in_order_while_threads_come_and_go(ending: str) -> None:
    work = Counted()

    def fails(given: Any) -> Item:
        if ending == "error" and given.step == 150:
            raise ValueError(given.step)
        return work(given)

    stages = (Stage("tuned", "python", fails, threads=2, most=9), Stage("after", "cpu", lambda item: item, threads=2))
    run = Run(
        stages, (Work(0, step, 1) for step in range(300)), Depth(), tuner=Turned(stages, [2, 9, 1, 5, 1, 1, 3, 7, 2])
    )
    steps = []
    try:
        for item in run:
            steps.append(item.step)
            if ending == "close" and len(steps) == 150:
                break
    except ValueError:
        assert ending == "error"
    assert steps == list(range(300 if ending == "end" else 150))
    assert 2 < work.most <= 9
    assert len([name for name in threads_of_penstock() if name.startswith("penstock-tuned")]) <= 9
    if ending == "end":  # those that rest end with the work, before anybody closes the run
        deadline = time.monotonic() + 60
        while any("tuned" in name for name in threads_of_penstock()) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not any("tuned" in name for name in threads_of_penstock())
    run.close()


def test_fewer_threads_are_fewer_at_once() -> None:
    work = Counted()
    stages = (Stage("tuned", "python", work, threads=6, most=6),)
    tuner = Turned(stages, [1])
    run = Run(stages, (Work(0, step, 1) for step in range(100)), Depth(), tuner=tuner)
    for _ in range(20):
        next(run)
    work.most = 0
    for _ in range(60):
        next(run)
    assert work.most == 1
    deadline = time.monotonic() + 60
    while (
        resting := [doing.now[0] for doing in run.stages_now()[0].threads].count("rests")
    ) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert resting == 5
    run.close()


def test_a_system_that_gives_no_more_threads_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = (Stage("tuned", "python", item_of, threads=1, most=64),)
    tuner = Turned(stages, [64])
    run = Run(stages, (Work(0, step, 1) for step in range(50)), Depth(), tuner=tuner)
    begin = threading.Thread.start
    left = iter(range(3))

    def start(thread: threading.Thread) -> None:
        if next(left, None) is None:
            raise RuntimeError("can't start new thread")
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    assert [item.step for item in run] == list(range(50))
    assert len(run.stages_now()[0].threads) == 4
    run.close()


# What it sees


class FakeCrew:
    def __init__(self, threads: int) -> None:
        self.threads, self.busy_s, self.waiting_s, self.items, self.at_work = threads, 0.0, 0.0, 0, True

    def resize(self, threads: int) -> int:
        self.threads = threads
        return threads

    def is_at_work(self, since_s: float) -> bool:
        return self.at_work


class Clock:
    now = cpu = 0.0


def tuned(*stages: Stage, cpus: int = 4, **options: Any) -> tuple[Tuner, list[FakeCrew], Clock]:
    clock = Clock()
    tuner = Tuner(stages, (Budget(1, cpus=cpus),), clock=lambda: clock.now, cpu_clock=lambda: clock.cpu, **options)
    tuner.begin()
    return tuner, [FakeCrew(tuner.threads(number, stage)) for number, stage in enumerate(stages)], clock


NOTHING: Callable[[Any], Item] = item_of


def test_the_stage_that_others_wait_for_gets_threads() -> None:
    """By what threads wait for: those of a function that holds the interpreter wait for it in many places."""
    tuner, (read, call, deliver), clock = tuned(
        Stage("read", "io", NOTHING, 2, most=8),
        Stage("map f", "python", NOTHING, 2, most=16),
        Stage("deliver", "cpu", NOTHING, 2),
    )
    for _ in range(60):
        clock.now += 0.02
        clock.cpu += 0.01
        call.busy_s += 0.02
        deliver.waiting_s += 0.04
        for crew in (read, call, deliver):
            crew.items += 1
        tuner.after_item([read, call, deliver], 0.019, is_full=False)
    assert (read.threads, deliver.threads) == (2, 2)
    first = tuner.decisions[0]
    assert (first.knob, first.before, first.after) == ("map f", 2, 8)
    assert "the consumer waited 95%" in first.why


def test_while_nothing_comes_only_an_idle_process_gets_more() -> None:
    for used, wanted in ((0.0, 8), (4.0, 2)):
        tuner, (call,), clock = tuned(Stage("map f", "python", NOTHING, 2, most=16), cpus=4)
        for _ in range(20):
            clock.now += LOOK_S
            clock.cpu += used * LOOK_S
            tuner.while_waiting([call])
        assert call.threads == wanted, "doubled twice at most, since a function may hang"


def test_the_system_is_asked_for_threads_in_vain() -> None:
    class Poor(FakeCrew):
        def resize(self, threads: int) -> int:
            return super().resize(min(threads, 3))

    tuner, _, clock = tuned(Stage("map f", "python", NOTHING, 2, most=16))
    crew = Poor(2)
    for _ in range(20):
        clock.now += LOOK_S
        tuner.while_waiting([crew])
    (_, knob) = tuner.knobs
    assert (knob.value, knob.most) == (3, 3)


# Loaders


def waits(batch: dict[str, Any]) -> dict[str, Any]:
    time.sleep(0.002)
    return {"x": batch["x"] * 2}


def plan(rows: int = 4096) -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(rows)}).shuffle(seed=0).map(waits).batch(16)


def turned(loader: ps.Loader[Any]) -> None:
    """Makes a loader's tuner turn everything at every item."""
    tuner, random = lowered_of(loader).tuner, np.random.default_rng(0)

    def after_item(crews: list[Crew], *_: Any, **__: Any) -> None:
        for crew in crews:
            if crew.stage.is_tunable:
                crew.resize(int(random.integers(1, crew.stage.most + 1)))
        for budget in lowered_of(loader).budgets:
            budget.cpus = int(random.integers(1, 4))

    tuner.after_item = after_item  # type: ignore[method-assign,assignment]


@pytest.mark.parametrize("world", [1, 2])
def test_batches_and_states_are_the_same_whatever_it_does(world: int) -> None:
    dataset = (
        ps.from_arrays({"x": np.arange(512)})
        .shuffle(seed=0)
        .map_rows(lambda row: {"x": row["x"] + 1})
        .map(waits)
        .batch(16)
    )
    options: dict[str, Any] = {"rank": world - 1, "world_size": world}
    plain, other = ps.Loader(dataset, cpus=1, **options), ps.Loader(dataset, **options)
    turned(other)
    for one, two in zip(plain, other, strict=True):
        assert one["x"].tolist() == two["x"].tolist()
        assert plain.state_dict() == other.state_dict()
    plain.close()
    other.close()


def test_a_state_of_a_tuned_loader_goes_on_in_any_other() -> None:
    first, second = ps.Loader(plan(512)), ps.Loader(plan(512), cpus=1)
    turned(first)
    batches = iter(first)
    for _ in range(10):
        next(batches)
    state = json.loads(json.dumps(first.state_dict()))
    second.load_state_dict(state)
    assert [batch["x"].tolist() for batch in batches] == [batch["x"].tolist() for batch in second]
    first.close()
    second.close()


def test_stats_show_every_number_and_the_last_decisions() -> None:
    with ps.Loader(plan()) as loader:
        assert loader.stats()["tuning"] == {"values": {}, "changes": 0, "decisions": []}
        for _ in zip(range(3), loader, strict=False):
            pass
        batches = iter(loader)
        next(batches)
        tuner = lowered_of(loader).tuner
        tuner.note_depth(2, 3)
        tuning = loader.stats()["tuning"]
        assert set(tuning["values"]) >= {"kernels", "map waits", "prefetch"}
        for value in tuning["values"].values():
            assert set(value) == {"value", "most", "unit", "fixed"}
            assert 1 <= value["value"] <= value["most"]
            assert not value["fixed"]
        last = tuning["decisions"][-1]
        assert set(last) == {"at_s", "knob", "from", "to", "why"}
        assert (last["knob"], last["from"], last["to"]) == ("prefetch", 2, 3)
        assert tuning["changes"] >= 1
        json.dumps(tuning.as_dict())
        line = next(line for line in loader.report().splitlines() if line.startswith("tuning: "))
        assert "map waits" in line
        assert "the last: prefetch 2 -> 3" in line
    assert loader.stats()["tuning"] == tuning, "they outlive the pass"


def test_numbers_of_the_user_are_not_tuned() -> None:
    with ps.Loader(plan(), cpus=3, prefetch=5, memory="1GB") as loader:
        next(iter(loader))
        tuning = loader.stats()["tuning"]
    assert all(value["fixed"] for value in tuning["values"].values())
    assert {name: value["value"] for name, value in tuning["values"].items()} == {"kernels": 3, "prefetch": 5}
    assert "map waits" not in tuning["values"], "a thread a CPU, as was asked for"
    assert [stage.threads for stage in lowered_of(loader).stages if stage.kind == "python"] == [3]


@pytest.mark.parametrize(
    ("option", "fixed"),
    [({"cpus": 2}, {"kernels"}), ({"prefetch": 2}, {"prefetch"}), ({"memory": 1 << 30}, {"read"}), ({}, set())],
)
def test_one_number_fixes_what_follows_from_it_alone(photos: Path, option: Any, fixed: set[str]) -> None:
    with ps.Loader(ps.read(str(photos)).shuffle(seed=0).map(lambda batch: batch).batch(4), **option) as loader:
        next(iter(loader))
        values = loader.stats()["tuning"]["values"]
    assert {name for name, one in values.items() if one["fixed"]} == fixed
    assert any(name.startswith("map") for name in values) == ("cpus" not in option)


def test_what_was_learnt_is_kept_for_the_next_pass() -> None:
    with ps.Loader(plan(256)) as loader:
        next(iter(loader))
        (knob,) = (knob for knob in lowered_of(loader).tuner.knobs if knob.kind == "function")
        knob.value = 7
        loader.close()
        next(iter(loader))
        (stage,) = (stage for stage in loader.stats()["stages"] if stage["name"] == "map waits")
        assert stage["threads"] == 7


def test_lane_stages_are_tuned_under_their_own_names() -> None:
    dataset = (
        ps.from_arrays({"x": np.arange(2048)})
        .shuffle(seed=0)
        .map(waits)
        .filter(lambda batch: batch["x"] % 3 > 0)
        .batch(16, steps=64)
    )
    with ps.Loader(dataset) as loader:
        next(iter(loader))
        names = set(loader.stats()["tuning"]["values"])
    below = {name for name in names if "->" in name}
    assert any(name.startswith("map waits -> filter") for name in below)
    assert "kernels" in names, "one number for all"


def test_shares_of_a_stage_count_the_threads_that_there_were() -> None:
    from penstock.observe.metrics import Meter

    meter = Meter("map f", "python", 2)
    meter.add(rows=1, size_bytes=0, waited_s=0.0, busy_s=20.0, blocked_s=0.0, queue=0)
    meter.resize(1, 10.0)
    assert meter.thread_s(15.0) == 25.0
    assert meter.snapshot(15.0)["busy"] == 0.8
    assert meter.snapshot(15.0)["threads"] == 1


def test_it_costs_little() -> None:
    """Counted in calls of the clock: one an item, and few more a window."""
    calls = SimpleNamespace(clock=0, cpu=0)

    def clock() -> float:
        calls.clock += 1
        return calls.clock * 0.001

    def cpu_clock() -> float:
        calls.cpu += 1
        return 0.0

    stage = Stage("map f", "python", NOTHING, 2, most=4)
    tuner = Tuner((stage,), (Budget(1, cpus=4),), clock=clock, cpu_clock=cpu_clock)
    tuner.begin()
    crew = FakeCrew(2)
    for _ in range(1000):
        tuner.after_item([crew], 0.0, is_full=False)
    assert calls.clock <= 1_010
    assert calls.cpu <= 20
