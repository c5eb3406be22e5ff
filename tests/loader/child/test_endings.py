"""Children that end too early, those that must end, and what stays of them."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import penstock as ps
from support.alone import alone
from support.seams import child_of
from support.shared import new_threads, shared_memory

pytestmark = pytest.mark.slow


def children(of: int | None = None) -> list[int]:
    return [child.pid for child in psutil.Process(of).children(recursive=True)]


def child_pid(loader: ps.Loader[Any]) -> int:
    """Of its child; earlier tests may have left others."""
    return int(child_of(loader)._process._child.pid)


def gone(numbers: list[int]) -> bool:
    """Whether these processes end soon."""
    for _ in range(1200):
        if not any(map(runs, numbers)):
            return True
        time.sleep(0.05)
    return False


def runs(number: int) -> bool:
    try:
        return bool(psutil.Process(number).status() != "zombie")
    except psutil.NoSuchProcess:
        return False


def numbers(function: Any = None, rows: int = 400, **options: Any) -> ps.Dataset:
    data = ps.from_arrays({"x": np.arange(rows)})
    return (data if function is None else data.map(function, **options)).batch(10)


def left() -> tuple[set[str], list[int], set[threading.Thread], int]:
    gc.collect()
    return shared_memory(), children(), {*threading.enumerate()}, len(os.listdir("/proc/self/fd"))


def check_left(before: tuple[set[str], list[int], set[threading.Thread], int]) -> None:
    """No more than before; threads, files and processes of earlier tests' loaders may end meanwhile."""
    memory, processes, _, files = left()
    assert memory <= before[0]
    assert {*processes} <= {*before[1]}
    assert not new_threads(before[2])
    assert files <= before[3]


def test_a_child_that_dies_is_an_error_and_a_new_pass_works() -> None:
    before = left()

    def end(batch: dict[str, Any]) -> dict[str, Any]:
        if 200 in batch["x"]:
            os._exit(3)
        return batch

    loader = ps.Loader(numbers(end), isolation="process", prefetch=1)
    found = list[int]()
    with pytest.raises(ps.ProcessError, match=r"ended by exit status 3.*new pass"):  # noqa: PT012
        for batch in loader:
            found += batch["x"].tolist()
    assert found == [*range(len(found))]
    loader.set_epoch(0)
    taken = iter(loader)
    next(taken)
    os.kill(child_pid(loader), signal.SIGSEGV)
    with pytest.raises(ps.ProcessError, match="ended by signal SIGSEGV"):
        list(taken)
    loader.set_epoch(0)
    assert next(iter(loader))["x"].tolist() == [*range(10)]
    idle = child_of(loader)
    os.kill(child_pid(loader), signal.SIGKILL)
    while idle.is_running:  # a moment longer than its first thread
        time.sleep(0.01)
    assert next(iter(loader))["x"].tolist() == [*range(10)]  # it was idle: another is started
    loader.close()
    check_left(before)


@alone
def test_what_was_given_stays_and_nothing_else() -> None:
    before = left()
    numbers = np.arange(200_000).reshape(-1, 1_000)
    data = ps.from_arrays({f"x{column}": numbers + column for column in range(40)}).batch(2)
    loader = ps.Loader(data, isolation="process")
    kept = [*loader]  # of more regions than there may be
    fork = os.fork()
    if not fork:
        os._exit(0)
    os.waitpid(fork, 0)
    for _ in range(2):
        for step, batch in enumerate(loader):
            assert (batch["x1"] == kept[step]["x1"]).all()
    regions = [line for line in Path("/proc/self/maps").read_text().splitlines() if "memfd:penstock" in line]
    assert 100 < len(regions) < 260
    del loader, batch
    assert gone(children())
    for column in range(40):
        assert np.array_equal(np.concatenate([batch[f"x{column}"] for batch in kept]), numbers + column)
    kept.clear()
    check_left(before)


@alone
def test_a_fork_leaves_what_its_parent_gives_back() -> None:
    """Memory of batches that a fork holds is not used again; the loader of the fork says what to do."""
    with ps.Loader(
        ps.from_arrays({"x": np.arange(400_000).reshape(-1, 10_000)}).batch(2), isolation="process"
    ) as loader:
        batches = iter(loader)
        batch = next(batches)
        ours, theirs = os.pipe()
        forked = os.fork()
        if not forked:
            status = 1
            try:
                os.read(ours, 1)
                right = (batch["x"] == np.arange(20_000).reshape(2, -1)).all()
                try:
                    next(batches)
                except ps.ProcessError as error:
                    right &= "started before a fork" in str(error)
                loader.close()
                loader.set_epoch(0)
                right &= next(iter(loader))["x"][0, 1] == 1
                loader.close()
                status = 0 if right else 2
            finally:
                os._exit(status)
        del batch
        assert len([*batches]) == 19
        assert len([*loader]) == 20
        os.write(theirs, b".")
        assert os.waitpid(forked, 0)[1] == 0
        assert len([*loader]) == 20
        os.close(ours)
        os.close(theirs)


SCRIPT = """
import os, signal, sys, time
import numpy as np
import penstock as ps

def work(batch):
    if sys.argv[1] == "sleep":
        print("sleeps")
        time.sleep(1000)
    return batch

data = ps.from_arrays({"x": np.arange(400)}).map(lambda batch: batch, workers="process").map(work).batch(10)
loader = ps.Loader(data, cpus=1, isolation="process")
for step, batch in enumerate(loader):
    print("step", step, flush=True)
"""


def script(tmp_path: Path, *words: str, limit: str = "") -> subprocess.Popen[str]:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    command = [sys.executable, str(path), *words]
    if limit:
        command = ["sh", "-c", f'{limit}; exec "$@"', "sh", *command]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_all_end_with_the_parent(tmp_path: Path, ending: signal.Signals) -> None:
    """The child, and the processes of functions that it started."""
    running = script(tmp_path, "sleep")
    assert running.stdout is not None
    assert running.stdout.readline() == "sleeps\n"
    found = children(running.pid)
    assert len(found) == 2
    if ending == signal.SIGINT:
        for child in found:
            os.kill(child, ending)  # as a terminal does
        time.sleep(0.2)
        assert children(running.pid) == found
    running.send_signal(ending)
    _, wrong = running.communicate(timeout=90)
    assert gone(found)
    assert wrong.count("Traceback") == (0 if ending == signal.SIGKILL else 1)


def test_few_file_descriptors(tmp_path: Path) -> None:
    said, wrong = script(tmp_path, "end", limit="ulimit -n 64").communicate(timeout=280)
    assert wrong == ""
    assert "step 39" in said


def test_what_cannot_be_sent_is_an_error_at_once() -> None:
    lock = threading.Lock()

    def locked(batch: dict[str, Any]) -> dict[str, Any]:
        with lock:
            return batch

    with pytest.raises(ps.PlanError, match=r"'lock', a _thread.lock, of map.*cannot be pickled"):
        ps.Loader(numbers(locked), isolation="process")
    stream = ps.from_iterable(iter([{"x": 1}]), spool=False, samples=1).batch(1)
    with pytest.raises(ps.PlanError, match=r"isolation='process'.*drawn only once"):
        ps.Loader(stream, isolation="process")


def test_wrong_arguments() -> None:
    for wrong in ("processes", True, 1, np.arange(3)):
        with pytest.raises(ps.PlanError, match=r"isolation=.*'process'"):
            ps.Loader(numbers(), isolation=wrong)  # type: ignore[call-overload]

    class Own(ps.Loader[Any]):
        pass

    with pytest.raises(ps.PlanError, match="subclass"):
        Own(numbers(), isolation="process")
    with pytest.raises(ps.PlanError, match="did you mean 'torch'"):
        ps.Loader(numbers(), isolation="process", to="troch")  # type: ignore[call-overload]
    assert isinstance(ps.Loader(numbers(), isolation=None), ps.Loader)


def test_without_cloudpickle(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is needed for code of the script alone."""
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(ps.PlanError, match="pip install cloudpickle"):
        ps.Loader(numbers(lambda batch: batch), isolation="process")
    ps.Loader(numbers(), isolation="process")


def test_what_the_child_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    module = type(sys)("only_here")
    exec("def function(batch): return batch", vars(module))
    monkeypatch.setitem(sys.modules, "only_here", module)
    with (
        ps.Loader(numbers(module.function), isolation="process") as loader,
        pytest.raises(ps.PlanError, match="No module named 'only_here'"),
    ):
        next(iter(loader))


def test_an_interpreter_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    for path, said in (("/bin/false", "ended by exit status 1"), ("/nowhere/python", "cannot be started")):
        monkeypatch.setattr(sys, "executable", path)
        with pytest.raises(ps.ProcessError, match=said):
            next(iter(ps.Loader(numbers(), isolation="process")))
