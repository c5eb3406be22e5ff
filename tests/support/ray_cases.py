"""Tests of Ray run in processes of their own: its driver leaves threads and signal handlers behind, and its nodes are processes that must not outlive a test."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil

#: Set for a run of cases, and for all processes that it starts.
MARK = "PENSTOCK_RAY_CASES"
CASES = Path(__file__).parents[1] / "on_ray"


def run_cases(*files: str, timeout_s: float, marks: str = "not long") -> None:
    """Runs files of tests/on_ray by pytest in another process, and shows what it wrote if one fails. Nothing that it started may be left a while after it."""
    mark = uuid.uuid4().hex
    command = [sys.executable, "-X", "faulthandler", "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    command += ["-m", marks, "-o", f"timeout={timeout_s:g}", *(str(CASES / file) for file in files)]
    paths = [str(CASES.parent), os.environ.get("PYTHONPATH")]  # also of actors, which import the functions of cases
    # In a group of its own, with its output in a pipe that Ray's processes do not get: they write to files.
    process = subprocess.Popen(
        command,
        cwd=CASES.parents[1],
        env={**os.environ, MARK: mark, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        shown, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        end_marked(mark)
        shown, _ = process.communicate(timeout=60)
        raise AssertionError(f"{files} took longer than {timeout_s:g} s:\n{shown}") from None
    left = wait_for_end(mark)
    end_marked(mark)
    assert process.returncode == 0, f"pytest ended with {process.returncode}:\n{shown}"
    assert not left, f"processes were left: {left}\n{shown}"


def marked(mark: str) -> list[psutil.Process]:
    """The processes of a run."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def end_marked(mark: str) -> None:
    """Kills what is left of a run."""
    for process in marked(mark):
        try:
            process.kill()
        except psutil.Error:
            continue


def wait_for_end(mark: str, seconds: float = 60.0) -> list[str]:
    """The command lines of what is left after a while."""
    until = time.monotonic() + seconds
    while (left := marked(mark)) and time.monotonic() < until:
        time.sleep(0.5)
    return [str(process) for process in left]
