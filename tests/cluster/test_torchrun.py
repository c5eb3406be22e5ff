"""examples/cluster/train.py under torchrun: preempted, killed, and on another number of processes, with every row once."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.observe.ledger.verify import verify
from support.own_session import TESTS, end_session

pytestmark = [
    pytest.mark.trainers,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"),
]
TRAIN = TESTS.parent / "examples" / "cluster" / "train.py"
ROWS, EPOCHS = 4_800, 2


@contextmanager
def torchrun(folder: Path, *options: str, step_s: float = 0.0) -> Iterator[subprocess.Popen[str]]:
    """Trains in a folder; what is left of it is killed at the end."""
    with (folder / "log").open("a") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *options, str(TRAIN), str(folder)],
            stdout=log, stderr=log, text=True, start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "STEP_S": str(step_s), "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
    try:
        yield child
    finally:
        end_session(child.pid)
        for worker in workers(folder):
            with suppress(ProcessLookupError):  # it ends by itself
                os.kill(worker, signal.SIGKILL)
        child.wait(60)


def workers(folder: Path) -> list[int]:
    """Processes that train in this folder; torchrun gives each a session of its own."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
        except (OSError, UnicodeDecodeError):
            continue
        if str(folder) in words and "torch.distributed.run" not in words:
            found.append(int(entry.name))
    return found


def wait_for(what: Callable[[], Any], seconds: float = 150.0) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it does not come"
        time.sleep(0.02)


def begun(folder: Path, words: str) -> bool:
    return words in (folder / "log").read_text()


def assert_exact(folder: Path, *, steps_again: int | None = None) -> Any:
    report = verify([str(folder / "ledger")])
    assert report.wrong == [], (folder / "log").read_text()[-4000:]
    assert [(one.epoch, one.rows) for one in report.epochs] == [(epoch, ROWS) for epoch in range(EPOCHS)]
    if steps_again is not None:
        assert sum(one.steps_again for one in report.resumes) == steps_again
    return report


def test_ranks_save_together_and_go_on_on_another_number_of_them(tmp_path: Path) -> None:
    """Only torchrun gets the signal; no step is made twice."""
    with torchrun(tmp_path, "--standalone", "--nproc-per-node=2", step_s=0.05) as run:
        wait_for((tmp_path / "state.pt").exists)
        run.send_signal(signal.SIGTERM)
        assert run.wait(120) != 0
    with torchrun(tmp_path, "--standalone", "--nproc-per-node=1") as run:
        assert run.wait(120) == 0
    assert [*assert_exact(tmp_path, steps_again=0).world_sizes] == [1, 2]


@pytest.mark.long
def test_a_killed_rank_starts_all_of_them_again(tmp_path: Path) -> None:
    with torchrun(tmp_path, "--standalone", "--nproc-per-node=2", "--max-restarts=3", step_s=0.02) as run:
        wait_for((tmp_path / "state.pt").exists)
        time.sleep(0.2)
        os.kill(workers(tmp_path)[-1], signal.SIGKILL)
        assert run.wait(120) == 0
    assert len(assert_exact(tmp_path).resumes) >= 1


@pytest.mark.long
def test_a_machine_that_goes_leaves_the_others_to_go_on(tmp_path: Path) -> None:
    """Two of torchrun's agents, one of which is killed with its ranks."""
    options = [
        "--nnodes=1:2",
        "--nproc-per-node=1",
        "--max-restarts=9",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=localhost:29617",
    ]
    options += ["--rdzv-id=one", "--rdzv-conf=last_call_timeout=5,join_timeout=60"]
    with torchrun(tmp_path, *options, step_s=0.05) as first, torchrun(tmp_path, *options, step_s=0.05) as second:
        wait_for(lambda: begun(tmp_path, "of 2 begins"))
        wait_for((tmp_path / "state.pt").exists)
        gone = [worker for worker in workers(tmp_path) if parent_of(worker) == second.pid]
        for process in [second.pid, *gone]:
            os.kill(process, signal.SIGKILL)
        wait_for(lambda: begun(tmp_path, "rank 0 of 1 begins"))
        assert first.wait(150) == 0
    assert [*assert_exact(tmp_path).world_sizes] == [1, 2]


def parent_of(process: int) -> int:
    return int((Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[1])
