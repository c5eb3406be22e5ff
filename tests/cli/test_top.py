"""`penstock top` beside real trainings, in a real terminal."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cli_runner import invoke

TRAINING = """
import sys, time, numpy as np, penstock as ps
def look_up(batch):
    time.sleep(0.02)
    return batch
data = ps.from_arrays({"x": np.arange(1_000_000)}).map(look_up).batch(16)
with ps.Loader(data) as loader:  # in one pass all along, since between two there are no figures
    for batch in loader:
        time.sleep(float(sys.argv[1]))
"""
COMMAND = [sys.executable, "-m", "penstock", "top"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PENSTOCK_OBSERVE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def trainings(folder: Path) -> Iterator[list[int]]:
    """Two processes, which tell of their loaders."""
    running = [subprocess.Popen([sys.executable, "-c", TRAINING, step]) for step in ("0.001", "0.05")]
    try:
        until(lambda: len([*folder.glob("*.snapshot.json")]) == 2)
        yield [one.pid for one in running]
    finally:
        for one in running:
            one.kill()
            one.wait()


def until(holds: Callable[[], bool], timeout_s: float = 60.0) -> None:
    ends_at = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < ends_at, "it never came to that"
        time.sleep(0.2)


def test_where_no_loader_runs(folder: Path) -> None:
    found = invoke("top")
    assert found.exit_code == 0
    assert "No loader of this user runs on this machine." in found.stdout
    assert str(folder) in found.stdout.replace("\n", "")
    assert json.loads(invoke("top", "--json").stdout) == {"loaders": [], "ignored": [], "looked_in": [str(folder)]}
    asked = invoke("top", "4242")
    assert asked.exit_code == 1
    assert "top 4242: this process has no loader that runs" in asked.stderr


@pytest.mark.slow
def test_two_trainings_are_found_without_being_restarted(trainings: list[int], folder: Path) -> None:
    until(lambda: all(one["over"] == "now" and one["samples_per_s"] > 0 for one in told()))  # if these have CPUs
    facts = told()
    assert sorted(one["snapshot"]["loader"]["pid"] for one in facts) == sorted(trainings)
    for one in facts:
        assert "map look_up" in [stage["name"] for stage in one["snapshot"]["stages"]]
    table = invoke("top", str(trainings[0])).stdout
    assert str(trainings[0]) in table
    assert str(trainings[1]) not in table
    if shutil.which("tmux"):
        _in_tmux(trainings)
    os.kill(trainings[0], 9)
    until(lambda: len(told()) == 1)


def told() -> list[dict[str, Any]]:
    return list(json.loads(invoke("top", "--once", "--json").stdout)["loaders"])


def _in_tmux(trainings: list[int]) -> None:
    """Two sizes of a terminal; what was on the screen is there again afterwards."""
    name = f"penstock-test-{os.getpid()}"

    # pytest-xdist sets COLUMNS, by which a terminal would keep its width.
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}

    def tmux(*arguments: str) -> str:
        command = ["tmux", "-L", name, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    def shown() -> str:
        return tmux("capture-pane", "-p")

    quoted = " ".join(COMMAND)
    try:
        tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "sh")
        tmux("send-keys", f"echo on-the-screen; {quoted}; echo status $?", "Enter")  # no word of a verdict
        until(lambda: all(text in shown() for text in (*map(str, trainings), "map look_up", "q quits")))
        assert "on-the-screen" not in shown()
        tmux("resize-window", "-x", "140", "-y", "60")
        until(lambda: " p95 " in shown() and max(map(len, shown().splitlines()), default=0) > 80)
        tmux("send-keys", "q")
        until(lambda: "status 0" in shown())
        assert "on-the-screen" in shown()
        tmux("send-keys", f"clear; {quoted}; echo ended $?", "Enter")
        until(lambda: "q quits" in shown())
        tmux("send-keys", "C-c")
        until(lambda: "ended 0" in shown())
    finally:
        subprocess.run(["tmux", "-L", name, "kill-server"], capture_output=True, check=False)


def test_a_terminal_that_is_none_gets_one_table(folder: Path) -> None:
    done: Any = subprocess.run(
        COMMAND,
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TERM": "dumb"},
    )
    assert "No loader of this user runs on this machine." in done.stdout
    assert "\x1b" not in done.stdout
