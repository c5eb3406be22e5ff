"""Processes whose start takes long are ended as soon as nobody wants them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from penstock.processes.process import Purpose
from penstock.torch import processes
from penstock.torch.processes import Workers

pytestmark = pytest.mark.slow

PARENT = """
import os, sys, time
sys.path.insert(0, {folder!r})
from penstock.processes.process import Process, Purpose
process = Process(Purpose(module="slow_to_import", option="a test", otherwise="wait"), polite={polite})
print(process._child.pid, flush=True)
time.sleep(100)
"""


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 100
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module whose import takes longer than any test; it leaves a note when it begins."""
    (tmp_path / "slow_to_import.py").write_text(
        f"import pathlib, time\npathlib.Path({str(tmp_path / 'begun')!r}).touch()\ntime.sleep(100)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("polite", [True, False])
def test_a_process_ends_with_its_parent_while_it_imports(slow: Path, polite: bool) -> None:
    program = PARENT.format(folder=str(slow), polite=polite)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        wait_until((slow / "begun").exists)
        parent.send_signal(signal.SIGKILL)
    wait_until(lambda: not child.is_running() or child.status() == "zombie")


@pytest.mark.parametrize("size_bytes", [100, 10_000_000], ids=["awaited", "being sent to"])
def test_the_drop_in_does_not_wait_for_processes_that_start(
    slow: Path, monkeypatch: pytest.MonkeyPatch, size_bytes: int
) -> None:
    monkeypatch.setattr(
        processes, "_FETCHES", Purpose(module="slow_to_import", option="a test", otherwise="pass tune=False")
    )
    workers = Workers(2)
    workers.begin(bytes(size_bytes), (0, [0]), b"")
    wait_until((slow / "begun").exists)
    began_at = time.monotonic()
    workers.close()
    assert time.monotonic() - began_at < 60
    assert not workers.is_starting
    assert not [one for one in psutil.Process().children() if "slow_to_import" in " ".join(one.cmdline())]
