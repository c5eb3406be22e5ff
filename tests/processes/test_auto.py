"""workers="auto": where functions end up, and that no batch depends on it."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.processes import auto
from penstock.processes.auto import CallAuto, FunctionChoice
from penstock.processes.pool import Pool

pytestmark = pytest.mark.slow

ROWS = 2400


@pytest.fixture(autouse=True)
def _short_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions that do not depend on what else the machine does: a short look, and any gain is one."""
    monkeypatch.setenv(
        "NUMEXPR_NUM_THREADS", "2"
    )  # and so processes start at full priority, since they are waited for here
    monkeypatch.setattr(auto, "_SECONDS", 0.02)
    monkeypatch.setattr(auto, "_BUSY", 0.0)
    monkeypatch.setattr(auto, "_FEWEST_CPUS", 0.0)
    monkeypatch.setattr(auto, "_MOST_CPUS", 99.0)
    monkeypatch.setattr(auto, "_GAIN", 0.0)

    def tried(call: CallAuto, *rows: Any) -> Any:
        made = compared(call, *rows)
        call.wait()
        return made

    compared = CallAuto._compared
    monkeypatch.setattr(CallAuto, "_compared", tried)  # an epoch is over sooner than processes start


def run(function: Any, verb: str = "map", **options: Any) -> tuple[list[dict[str, list[Any]]], dict[str, str]]:
    plan = getattr(ps.from_arrays({"x": np.arange(ROWS)}).shuffle(seed=1), verb)(function, workers="auto")
    with ps.Loader(plan.batch(8, steps=300) if verb == "flat_map" else plan.batch(8), cpus=2, **options) as loader:
        made = [{name: column.tolist() for name, column in batch.items()} for batch in loader]
        (chosen,) = loader.stats()["functions"]
        assert chosen["why"] in loader.report()
        assert len({*map(str, made)}) == 300
        return made, chosen


def busy(batch: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    until = time.thread_time() + 0.001
    while time.thread_time() < until:
        pass
    return {"x": batch["x"] + 1, "drawn": rng.random(len(batch["x"]))}


@pytest.mark.parametrize("verb", ["map", "flat_map"])
def test_processes_that_are_faster_get_the_work_and_give_the_same(verb: str) -> None:
    made, chosen = run(busy, verb)
    assert chosen["workers"] == "process"
    assert "times as many batches a second" in chosen["why"]
    plan = getattr(ps.from_arrays({"x": np.arange(ROWS)}).shuffle(seed=1), verb)(busy)
    with ps.Loader(plan.batch(8, steps=300) if verb == "flat_map" else plan.batch(8)) as loader:
        assert made == [{name: column.tolist() for name, column in batch.items()} for batch in loader]


def test_processes_that_are_no_faster_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "_GAIN", 1e9)
    _, chosen = run(busy)
    assert chosen["workers"] == "thread"
    assert "times as many" in chosen["why"]


def test_what_is_another_result_in_a_process_stays() -> None:
    here = os.getpid()

    def differs(batch: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {**busy(batch, rng), "process": np.full(len(batch["x"]), os.getpid() - here)}

    made, chosen = run(differs)
    assert (chosen["workers"], chosen["why"]) == ("thread", "it returns something else in a process")
    assert all(set(batch["process"]) == {0} for batch in made)


def test_what_cannot_be_sent_or_fails_there_stays() -> None:
    lock, here = threading.Lock(), os.getpid()

    def locked(batch: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        with lock:
            return busy(batch, rng)

    def fails(batch: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        if os.getpid() != here:
            raise OSError("not here")
        return busy(batch, rng)

    def leaves(batch: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        if os.getpid() != here:
            os._exit(3)
        return busy(batch, rng)

    for function, why in ((locked, "'lock', a _thread.lock"), (fails, "OSError: not here"), (leaves, "exit status 3")):
        _, chosen = run(function)
        assert chosen["workers"] == "thread"
        assert why in chosen["why"]


def test_bad_rows_are_bad_wherever_it_runs() -> None:
    def refuses(row: dict[str, Any]) -> dict[str, Any]:
        until = time.thread_time() + 0.0002
        while time.thread_time() < until:
            pass
        if row["x"] % 97 == 3:
            raise ps.DataError("no number")
        return {"x": row["x"]}

    found = []
    for workers in ("auto", "thread"):
        plan = ps.from_arrays({"x": np.arange(ROWS)}).shuffle(seed=1).map_rows(refuses, workers=workers).batch(8)
        with ps.Loader(plan, cpus=2, on_error="substitute") as loader, pytest.warns(UserWarning, match="no number"):
            found.append([batch["x"].tolist() for batch in loader])
    assert found[0] == found[1]


def test_threads_go_on_while_processes_start(monkeypatch: pytest.MonkeyPatch) -> None:
    began, goes_on = threading.Event(), threading.Event()

    def slow_start(_: Any) -> Any:
        began.set()
        assert goes_on.wait(60)
        return lambda columns, *_: columns

    monkeypatch.undo()
    monkeypatch.setattr(auto, "_SECONDS", 0.0)
    monkeypatch.setattr(auto, "_BUSY", 0.0)
    monkeypatch.setattr(auto, "_FEWEST_CPUS", 0.0)
    monkeypatch.setattr(auto, "_MOST_CPUS", 99.0)
    monkeypatch.setattr(Pool, "function", lambda *_, **__: slow_start(None))
    with ps.Loader(ps.from_arrays({"x": np.arange(ROWS)}).map(busy, workers="auto").batch(8), cpus=2) as loader:
        assert len(list(loader)) == 300
        assert began.wait(60)
        assert loader.stats()["functions"][0]["workers"] == "thread"
        goes_on.set()


def test_one_cpu_async_functions_and_free_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    async def waits(batch: dict[str, Any]) -> dict[str, Any]:
        return batch

    def call(cpus: int) -> CallAuto:
        return CallAuto(lambda *_: {}, lambda: pytest.fail("no process"), lambda: None, cpus, choice)  # type: ignore[arg-type]

    choice = FunctionChoice("map(f)")
    call(1)
    assert (choice.workers, choice.why) == ("thread", "one CPU may be used")
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    call(2)
    assert (choice.workers, choice.why) == ("thread", "threads of this interpreter do not wait for each other")
    with ps.Loader(ps.from_arrays({"x": np.arange(8)}).map(waits, workers="auto").batch(4)) as loader:
        assert len(list(loader)) == 2


def test_what_is_measured_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that sleep, or that leave the interpreter to others, are left on threads."""
    choice = FunctionChoice("map(f)")
    for cpus, busy_share, why in (
        (0.1, 1.0, "something else"),
        (1.9, 1.0, "1.9 CPUs at once"),
        (1.0, 0.2, "20% of the time"),
    ):
        monkeypatch.undo()
        # So long that what this machine does meanwhile is nothing beside it.
        window = auto._Measurement(
            calls=100, cpu_s=1e4 * cpus, active_s=1e4, began_at=time.perf_counter() - 1e4 / busy_share
        )
        made = CallAuto(lambda *_: {}, lambda: pytest.fail("no process"), lambda: None, 2, choice)  # type: ignore[arg-type]
        made._window = window
        assert made({}, np.arange(2)) == {}  # type: ignore[arg-type]
        assert why in choice.why
        assert choice.workers == "thread"


class Quick:
    """Calls that go elsewhere."""

    def __call__(self, columns: Any, *_: Any) -> Any:
        return columns

    def many(self, calls: Any) -> Any:
        return [self(*one) for one in calls]


def test_functions_that_draw_from_global_generators_come_to_processes_within_a_few_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They wait for the loop, so that their threads are neither busy nor use a CPU."""
    monkeypatch.undo()

    def here(columns: Any, _: Any) -> Any:
        time.sleep(0.02)
        return columns

    choice, batch = FunctionChoice("map(f)"), {"x": np.arange(4)}
    call = CallAuto(here, Quick, lambda: None, 2, choice, lambda: True)  # type: ignore[arg-type]
    for number in range(20):
        assert call(batch, np.arange(4)) == batch  # type: ignore[arg-type]
        if number == 5:
            assert call._trial is not None
            call.wait()
    assert choice.workers == "process", choice.why


def test_calls_in_which_processes_start_are_not_measured() -> None:
    window = auto._Measurement(skip=2)
    first = [window.enter() for _ in range(3)]
    window.leave(1.0, counts=first[0])
    window.leave(1.0, counts=first[1])
    started = window.enter()
    window.leave(1.0, counts=first[2])  # a process that started late answers for the first time
    assert (window.calls, window.active_s) == (0, 0.0)
    window.leave(1.0, counts=started)
    assert (first, started) == ([False] * 3, True)
    assert window.calls == 1
    assert window.rate > 0
