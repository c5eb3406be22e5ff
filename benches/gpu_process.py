"""Processes of `make gpu`: what each says, a line of JSON at a time, and the end of those that say nothing for too long. Imports the standard library only."""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
Figures = dict[str, Any]


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


def environment() -> dict[str, str]:
    """That of child processes: they import the package of this folder where none is installed."""
    paths = [] if is_installed("penstock") else [str(REPOSITORY / "python")]
    return os.environ | {"PYTHONPATH": os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])}


def answers(command: list[str], limit_s: float) -> Iterator[Figures]:
    """The lines of JSON that a process prints, each of which may take so long; the last one says what ended it, if that was not the process."""
    process = subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    lines: queue.Queue[str | None] = queue.Queue()
    errors: list[str] = []

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    def read_errors() -> None:
        assert process.stderr is not None
        errors.extend(process.stderr)

    readers = [threading.Thread(target=one, daemon=True) for one in (read, read_errors)]
    for reader in readers:
        reader.start()
    try:
        while (line := lines.get(timeout=max(1.0, limit_s))) is not None:
            if line.startswith("{"):
                yield json.loads(line)
    except queue.Empty:
        yield {"failed": f"gave nothing within {limit_s:.0f} s"}
    else:
        readers[1].join(5)
        if process.wait(10):
            yield {"failed": f"ended with {process.returncode}: {''.join(errors).strip()[-500:]}"}
    finally:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)  # with workers of a DataLoader
        process.wait()
        for reader in readers:
            reader.join(5)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
