"""A script in a session of its own: what it starts ends with it, and a hang fails one test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent


def run_alone(*arguments: str | Path, timeout_s: float = 280.0, check: bool = True, **environment: str) -> str:
    """What `python …` says; fails if it ends by an error or not in time, and kills what is left of it."""
    paths = [str(TESTS), str(TESTS.parent / "examples"), *(path for path in sys.path if path)]
    child = subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "RAY_USAGE_STATS_ENABLED": "0", "RAY_TRAIN_V2_ENABLED": "1", **environment},
    )  # fmt: skip
    try:
        said, _ = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        os.killpg(child.pid, signal.SIGKILL)
        raise AssertionError(f"not done within {timeout_s:g} s: {(error.stdout or b'')[-4000:]!r}") from None
    finally:
        end_session(child.pid)
    assert not check or child.returncode == 0, said[-8000:]
    return said


def end_session(leader: int) -> None:
    """Kills what is left of a session: Ray's processes have process groups of their own."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader:
                os.kill(int(entry.name), signal.SIGKILL)
        except (OSError, IndexError):
            continue
