"""One side of a bench: a process of its own that prints one line of JSON."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from work import HERE, interpreter, work_folder

OURS = "penstock"
Line = dict[str, Any]


@dataclass(frozen=True, order=True)
class Side:
    """One variant of one peer on one workload; OURS is a peer like the others here."""

    workload: str
    peer: str
    variant: str

    def command(self, arguments: argparse.Namespace) -> list[str]:
        """Its command line."""
        options = ["--workload", self.workload, "--variant", self.variant, "--data", str(arguments.data)]
        return [
            *script(self.peer),
            *options,
            "--seconds",
            str(arguments.seconds),
            "--warmup",
            str(arguments.warmup),
            "--json",
        ]


def script(peer: str) -> list[str]:
    """The interpreter and the file of a peer, or of ours."""
    return (
        [sys.executable, str(HERE / "ours.py")]
        if peer == OURS
        else [str(interpreter(peer)), str(HERE / "peers" / f"feed_{peer}.py")]
    )


class Failed(Exception):
    """A side that gave no figures; says why in one line."""


def call(command: list[str], timeout_s: float) -> Line:
    """Run a side's command and return its line of JSON; its processes end with it."""
    quiet = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}
    quiet.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages are compiled; ours, in this folder, should be too
    process = subprocess.Popen(
        command,
        env=quiet,
        cwd=work_folder(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise Failed(f"gave nothing within {timeout_s:.0f} s") from None
    finally:
        end(process)
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if process.returncode or not lines:
        reason = (err.strip().splitlines() or ["no output"])[-1][:200]
        raise Failed(f"ended with {process.returncode}: {reason}")
    line: Line = json.loads(lines[-1])
    return line


def end(process: subprocess.Popen[str]) -> None:
    """End what is left of a side's session: workers that outlive their parent would slow the next side down."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def sides(peer: str, workloads: list[str]) -> list[Side]:
    """A peer's sides, as its script lists them."""
    listed = call([*script(peer), "--list"], timeout_s=120)
    return [Side(workload, peer, variant) for workload in workloads for variant in listed.get(workload, [])]
