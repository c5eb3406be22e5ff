"""Processes of functions that end too early, and those that must end."""

from __future__ import annotations

import copy
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import penstock as ps
from penstock.processes import worker
from support.seams import is_awaited
from support.shared import new_threads, shared_memory

pytestmark = pytest.mark.slow


def children() -> list[int]:
    return [child.pid for child in psutil.Process().children()]


def gone(numbers: list[int]) -> bool:
    """Whether these processes end soon."""
    for _ in range(1200):
        if not any(psutil.pid_exists(number) and psutil.Process(number).status() != "zombie" for number in numbers):
            return True
        time.sleep(0.05)
    return False


def left(find: Callable[[], Iterable[Any]], before: Iterable[Any]) -> list[Any]:
    """What is new and stays: others have names in /dev/shm for a moment, and what was killed ends once it has a CPU."""
    known = {*before}
    for _ in range(1200):
        if not (new := [one for one in find() if one not in known]):
            return []
        time.sleep(0.05)
    return new


def close_later(loader: ps.Loader[Any]) -> None:
    """Closes a loader whose first batch is awaited, for a while."""

    def close() -> None:
        while not is_awaited(loader):
            time.sleep(0.01)
        time.sleep(0.7)
        loader.close()

    closing = threading.Thread(target=close)
    closing.start()
    with pytest.raises(ps.ProcessError, match="closed"):
        next(iter(loader))
    closing.join()


def numbers(function: Any, verb: str = "map") -> ps.Dataset:
    return getattr(ps.from_arrays({"x": np.arange(40)}), verb)(function, workers="process").batch(10)


def test_an_item_is_made_again_where_its_process_ended(tmp_path: Path) -> None:
    def end_once(batch: dict[str, Any]) -> dict[str, Any]:
        note = tmp_path / str(batch["x"][0])
        if batch["x"][0] in {0, 20} and not note.exists():
            note.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"x": batch["x"] + 1}

    with ps.Loader(numbers(end_once), cpus=2) as loader:
        assert np.concatenate([batch["x"] for batch in loader]).tolist() == [*range(1, 41)]
    assert len(list(tmp_path.iterdir())) == 2


def test_an_item_that_ends_processes_is_an_error() -> None:
    def crash(batch: dict[str, Any]) -> dict[str, Any]:
        if batch["x"][0] == 20:
            os.kill(os.getpid(), signal.SIGSEGV)
        return batch

    def leave(batch: dict[str, Any]) -> dict[str, Any]:
        os._exit(7)

    with ps.Loader(numbers(crash), cpus=1) as loader:
        steps = iter(loader)
        assert [next(steps)["x"][0] for _ in range(2)] == [0, 10]
        with pytest.raises(ps.DataError, match=r"map\(.*crash\).*10 rows.*SIGSEGV and by signal SIGSEGV"):
            next(steps)
    with ps.Loader(numbers(leave), cpus=1) as loader, pytest.raises(ps.DataError, match="exit status 7") as caught:
        next(iter(loader))
    assert "sample ids 0, 1" in str(caught.value.__notes__)


def test_free_processes_that_are_ended_are_no_error() -> None:
    before = {*children()}  # servers that other tests talk to
    with ps.Loader(numbers(lambda batch: {"x": batch["x"] + 1}), cpus=1) as loader:
        for step in range(2):
            assert loader.batch_at(0, step)["x"][0] == 10 * step + 1
            ours = [child for child in children() if child not in before]
            for child in ours:
                os.kill(child, signal.SIGKILL)
            assert gone(ours)


def test_lane_functions_stop_at_once() -> None:
    def sleep(batch: dict[str, Any]) -> dict[str, Any]:
        time.sleep(1000)
        return batch

    data = ps.from_arrays({"x": np.arange(400)}).flat_map(sleep, workers="process").batch(10, steps=9)
    threads, before = {*threading.enumerate()}, children()
    loader = ps.Loader(data, cpus=2)
    close_later(loader)
    assert not new_threads(threads)
    assert left(children, before) == []


def test_processes_stay_when_a_pass_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some take seconds to import what a function needs."""
    monkeypatch.setattr(worker, "_LATE_S", 60.0)  # which answers are late is for the machine's load to say

    def tells(batch: dict[str, Any]) -> dict[str, Any]:
        return {**batch, "process": np.full(len(batch["x"]), os.getpid())}

    plan = ps.from_arrays({"x": np.arange(400)}).map(tells, workers="process").batch(4)
    with ps.Loader(plan, cpus=2) as loader:
        seen = set[int]()
        for _ in range(5):
            for _, batch in zip(range(3), loader, strict=False):
                seen |= {*batch["process"].tolist()}
        loader.set_epoch(7)
        whole = list(loader)
        assert [batch["x"].tolist() for batch in whole] == [[*range(4 * step, 4 * step + 4)] for step in range(100)]
        assert len(seen | {int(batch["process"][0]) for batch in whole}) <= 2


def test_a_call_that_takes_long_does_not_hold_up_the_end_of_a_pass() -> None:
    def sleeps(batch: dict[str, Any]) -> dict[str, Any]:
        if batch["x"][0] >= 4:
            time.sleep(600)
        return batch

    with ps.Loader(ps.from_arrays({"x": np.arange(40)}).map(sleeps, workers="process").batch(4), cpus=2) as loader:
        for _ in range(2):
            assert next(iter(loader))["x"].tolist() == [0, 1, 2, 3]
            loader.set_epoch(0)


def test_nothing_is_left_after_a_loader() -> None:
    def sleep(batch: dict[str, Any]) -> dict[str, Any]:
        time.sleep(1000)
        return batch

    def copied(batch: dict[str, Any]) -> dict[str, Any]:
        return {"x": np.repeat(batch["x"][:, None], 50_000, axis=1)}

    threads, names, processes = {*threading.enumerate()}, shared_memory(), children()
    loader = ps.Loader(numbers(sleep), cpus=2)
    close_later(loader)
    loader = ps.Loader(numbers(copied), cpus=1)
    batch = next(iter(loader))  # the pass is broken off
    single = loader.batch_at(0, 1)
    del loader
    gc.collect()
    assert (batch["x"][:, -1] == np.arange(10)).all()  # what was given stays
    assert (single["x"][:, 0] == np.arange(10, 20)).all()
    assert left(shared_memory, names) == []
    assert left(children, processes) == []
    assert not new_threads(threads)


SCRIPT = """
import os, signal, sys, time
import numpy as np
import penstock as ps

print("script", os.getpid(), flush=True)  # no `if __name__`

class Own(Exception):
    pass

def work(batch):
    print(f"child {os.getpid()}\\n", end="")
    if sys.argv[1] != "end":
        time.sleep(1000)
    return batch

def fail(batch):
    raise Own("mine")

data = ps.from_arrays({"x": np.arange(40)}).map(work, workers="process").batch(10)
loader = ps.Loader(data, cpus=2)
print(f"steps {len([*loader])}\\n", end="", flush=True)
failing = ps.Loader(ps.from_arrays({"x": np.arange(40)}).map(fail, workers="process").batch(10), cpus=1)
try:
    next(iter(failing))
except Own as error:
    print(f"raised {error}")
"""


def run_script(tmp_path: Path, word: str) -> subprocess.Popen[str]:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return subprocess.Popen(
        [sys.executable, str(path), word], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    """Its own classes are the same in both processes, what functions print is seen, and it ends with its loader open."""
    said, wrong = run_script(tmp_path, "end").communicate(timeout=110)
    assert wrong == ""
    assert said.count("script") == 1
    assert said.count("child") >= 4  # and batches made ahead
    assert "steps 4" in said
    assert "raised mine" in said


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_children_end_with_their_parent(tmp_path: Path, ending: signal.Signals) -> None:
    script = run_script(tmp_path, "sleep")
    found = list[int]()
    for _ in range(600):
        found = [child.pid for child in psutil.Process(script.pid).children()]
        if len(found) == 2:
            break
        time.sleep(0.05)
    time.sleep(1)
    if ending == signal.SIGINT:
        for child in found:
            os.kill(child, ending)  # as a terminal does
        time.sleep(0.3)
        assert len(psutil.Process(script.pid).children()) == 2
    script.send_signal(ending)
    _, wrong = script.communicate(timeout=110)
    assert len(found) == 2
    assert gone(found)
    assert wrong.count("Traceback") == (0 if ending == signal.SIGKILL else 1)


def test_a_fork_has_processes_of_its_own() -> None:
    def who(batch: dict[str, Any]) -> dict[str, Any]:
        return {"x": np.full(len(batch["x"]), os.getppid())}

    with ps.Loader(numbers(who), cpus=1) as loader:
        assert loader.batch_at(0, 0)["x"][0] == os.getpid()
        forked = os.fork()
        if not forked:
            status = 1
            try:
                right = loader.batch_at(0, 1)["x"][0] == os.getpid()
                loader.close()
                status = 0 if right and not children() else 2
            finally:
                os._exit(status)
        assert os.waitpid(forked, 0)[1] == 0
        assert loader.batch_at(0, 1)["x"][0] == os.getpid()


def test_what_cannot_be_sent_is_named() -> None:
    lock = threading.Lock()

    def locked(batch: dict[str, Any]) -> dict[str, Any]:
        with lock:
            return batch

    class Opened:
        def __init__(self) -> None:
            self.guard = lock

        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            return batch

    with pytest.raises(ps.PlanError, match=r"map\(.*locked\).*'lock', a _thread.lock, cannot be pickled"):
        ps.Loader(numbers(locked))
    with pytest.raises(ps.PlanError, match=r"'guard', a _thread.lock, cannot be pickled"):
        ps.Loader(numbers(Opened()))
    assert "workers=process" in numbers(locked).explain()  # which runs nothing


def test_a_function_of_a_module_that_children_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    module = type(sys)("only_here")
    exec("def function(batch): return batch", vars(module))
    monkeypatch.setitem(sys.modules, "only_here", module)
    with (
        ps.Loader(numbers(module.function), cpus=1) as loader,
        pytest.raises(ps.PlanError, match=r"map\(function\).*No module named 'only_here'"),
    ):
        next(iter(loader))


def test_an_interpreter_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with (
        ps.Loader(numbers(lambda batch: batch), cpus=1) as loader,
        pytest.raises(ps.ProcessError, match="before its work began, by exit status 1"),
    ):
        next(iter(loader))


def test_an_interpreter_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with (
        ps.Loader(numbers(lambda batch: batch), cpus=1) as loader,
        pytest.raises(ps.ProcessError, match=r"cannot be started.*workers='thread'"),
    ):
        next(iter(loader))


def test_without_cloudpickle_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(ps.PlanError, match="pip install cloudpickle"):
        ps.Loader(numbers(lambda batch: batch))


@pytest.mark.parametrize("workers", ["fork", "threads", 4, None, True])
def test_other_workers_are_errors(workers: Any) -> None:
    data = ps.from_arrays({"x": np.arange(4)})
    for verb in (data.map, data.map_rows, data.filter, data.flat_map):
        with pytest.raises(ps.PlanError, match=r"workers=.*'thread', 'process' .*or 'auto'"):
            verb(lambda batch: batch, workers=workers)


def test_copies_of_a_plan() -> None:
    data = numbers(len)
    assert copy.deepcopy(data).digest == data.digest
    assert data.explain() == copy.deepcopy(data).explain()
