"""Functions in processes where memory, files or time are short: a typed error or the right batches, and nothing that stays behind."""

from __future__ import annotations

import logging
import os
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

pytestmark = pytest.mark.slow

LARGE = """
import os, resource, sys
import numpy as np
import penstock as ps

if sys.argv[1] == "files":
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

def larger(batch):
    return {"x": batch["x"], "y": np.repeat(batch["x"][:, None], 300_000, axis=1)}

plan = ps.from_arrays({"x": np.arange(80)}).map(larger, workers="process").batch(2)
with ps.Loader(plan, cpus=2, memory="2MB" if sys.argv[1] == "memory" else None) as loader:
    held = list(loader)  # 4.8 MB each
assert [int(row) for batch in held for row in batch["y"][:, -1]] == list(range(80))
print("done", *os.listdir("/dev/shm")[:1])
"""

EATS = """
import numpy as np
import penstock as ps

def eats(batch):
    if batch["x"][0] == 20:
        held = [np.ones(1 << 24, np.uint8) for _ in range(200)]
    return batch

loader = ps.Loader(ps.from_arrays({"x": np.arange(40)}).map(eats, workers="process").batch(10), cpus=1)
steps = iter(loader)
assert [next(steps)["x"][0] for _ in range(2)] == [0, 10]
try:
    next(steps)
except ps.DataError as error:
    print(error)
"""


def run(program: str, *words: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """A script, started by a shell after some commands of it."""
    command = [sys.executable, "-c", program, *words]
    if before:
        command = ["sh", "-c", f'{before} && exec "$@"', "sh", *command]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.parametrize("scarce", ["files", "memory"])
def test_few_files_and_a_small_budget(scarce: str) -> None:
    done = run(LARGE, scarce)
    assert (done.returncode, done.stdout.split()[:1]) == (0, ["done"]), done.stderr[-2000:]


def test_a_small_folder_for_shared_memory() -> None:
    """What is shared counts as memory, and not in /dev/shm."""
    small = "mount -t tmpfs -o size=1m tmpfs /dev/shm"
    if subprocess.run(["unshare", "-m", "sh", "-c", small], capture_output=True, check=False).returncode:
        pytest.skip("no folder can be mounted here")
    command = ["unshare", "-m", "sh", "-c", f'{small} && exec "$@"', "sh", sys.executable, "-c", LARGE, "shm"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-2000:]


def test_a_process_that_the_system_ends_for_want_of_memory() -> None:
    group = Path(f"/sys/fs/cgroup/memory/penstock-{os.getpid()}")
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(600 << 20))
    except OSError:
        pytest.skip("no control group can be made here")
    try:
        done = run(EATS, before=f"echo $$ > {group}/tasks")
    finally:
        for _ in range(100):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.05)
    assert "over this batch of 10 rows" in done.stdout, done.stderr[-2000:]
    assert "SIGKILL" in done.stdout
    assert "take smaller batches" in done.stdout
    assert not group.exists()  # no process was left in it


def test_a_process_that_ends_while_what_it_started_goes_on(tmp_path: Path) -> None:
    """A child of the child keeps its end of the socket open."""

    def forks(batch: dict[str, Any]) -> dict[str, Any]:
        if batch["x"][0] == 10:
            child = os.fork()
            if not child:
                time.sleep(600)
                os._exit(0)
            (tmp_path / str(child)).touch()
            os._exit(9)
        return batch

    plan = ps.from_arrays({"x": np.arange(30)}).map(forks, workers="process").batch(10)
    try:
        with ps.Loader(plan, cpus=1) as loader, pytest.raises(ps.DataError, match="exit status 9 and by exit status 9"):
            list(loader)
    finally:
        for child in tmp_path.iterdir():
            psutil.Process(int(child.name)).kill()


def closes(batch: dict[str, Any]) -> dict[str, Any]:
    os.closerange(3, 1 << 16)  # its own number is the parent's, which may have many files open
    return batch


class Departing:
    def __del__(self) -> None:
        raise RuntimeError("not like this")


def departs(batch: dict[str, Any]) -> dict[str, Any]:
    Departing()
    sys.stdout.close()
    os.close(1)
    return {"x": batch["x"] + 1}


@pytest.mark.filterwarnings("ignore:.*when it was called again")
def test_functions_that_close_what_is_not_theirs() -> None:
    data = ps.from_arrays({"x": np.arange(30)})
    with ps.Loader(data.map(closes, workers="process").batch(10), cpus=1) as loader:
        with pytest.raises(ps.DataError, match="ended its process") as caught:
            list(loader)
        assert "step 0" in caught.value.__notes__[-1]
    failing = ps.Loader(data.map(departs, workers="process").batch(10), cpus=1)
    with failing as loader, pytest.raises(OSError, match="Bad file descriptor"):  # of its second call: os.close(1)
        list(loader)


def test_a_function_that_blocks_is_named_with_its_step(caplog: pytest.LogCaptureFixture) -> None:
    def blocks(batch: dict[str, Any]) -> dict[str, Any]:
        if batch["x"][0] == 10:
            threading.Event().wait()
        return batch

    def close() -> None:
        until = time.monotonic() + 60
        while "works, epoch 0, step 1" not in caplog.text and time.monotonic() < until:
            time.sleep(0.05)
        loader.close()

    before = psutil.Process().children()
    plan = ps.from_arrays({"x": np.arange(30)}).map(blocks, workers="process").batch(10)
    loader = ps.Loader(plan, cpus=1, watchdog=0.4)
    steps = iter(loader)
    next(steps)
    closing = threading.Thread(target=close)
    closing.start()
    with caplog.at_level(logging.WARNING, "penstock"), pytest.raises(ps.ProcessError, match="closed"):
        next(steps)
    closing.join()
    assert "blocks" in caplog.text
    assert "works, epoch 0, step 1" in caplog.text
    until = time.monotonic() + 20
    while (left := {*psutil.Process().children()} - {*before}) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left
