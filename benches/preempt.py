"""How soon `loader.on_preempt` has written state and ledger behind a signal, beside processes that want the same CPUs and disk.

    python benches/preempt.py [--signals 60] [--others 15] [--python] [--json FILE]

Each signal comes at a random moment, in steps of 20 ms: one of native code that leaves the interpreter to others, or with --python one that does not. Four of five `others` compute, and each fifth one writes 4 MB and has the system put it on the disk, again and again.
Milliseconds from the signal until the thread hears of it, until the ledger and the state are read, and until the state's file is in its place; and the CPU time that the thread took from then on.
The numbers are of the clock on the wall: they say what the machine and its other work cost, too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock.loader import preempt

STEP_ROUNDS, STEP_LOOPS, WRITES_BYTES = 20_000, 400_000, 4 << 20
PHASES = ("heard", "read", "written")


# The process that gets the signal


def native_step() -> None:
    hashlib.pbkdf2_hmac("sha256", b"", b"", STEP_ROUNDS)


def python_step() -> None:
    number = 0
    for _ in range(STEP_LOOPS):
        number += 1  # noqa: SIM113  # the loop is the work


def train(folder: Path, step: Callable[[], None]) -> None:
    """Trains, and says of each signal when each phase was over; then it waits for the next one, as a process that has just begun does."""
    at: dict[str, int] = {}

    def noted(phase: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            found = function(*arguments)
            at.setdefault(phase, time.time_ns())
            return found

        return call

    def hear(*arguments: Any) -> None:
        at.clear()
        at["heard"], before = time.time_ns(), time.thread_time_ns()
        request(*arguments)
        os.write(1, f"{json.dumps({**at, 'cpu_ns': time.thread_time_ns() - before})}\n".encode())

    all_loaders: Any = preempt._Preemptions  # noqa: SLF001
    request, all_loaders.request = all_loaders.request, hear
    preempt.state_of = noted("read", preempt.state_of)
    preempt.Preemption.write = noted("written", preempt.Preemption.write)  # type: ignore[method-assign]
    data = ps.from_arrays({"x": np.arange(1_000_000)}).shuffle(seed=0).batch(256)
    loader, saved = ps.Loader(data, ledger=folder / "ledger", cpus=1), list[Any]()
    while True:
        (folder / "state.json").unlink(missing_ok=True)
        saved.clear()
        with loader.on_preempt(saved.append, state_file=folder / "state.json", ends=False):
            for number, _ in enumerate(loader):
                step()
                if number == 0:
                    os.write(1, b"ready\n")
                if saved:
                    break


def signalled(process: subprocess.Popen[str]) -> dict[str, float]:
    """Milliseconds of one signal."""
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(random.uniform(0.0, 0.2))
    sent_at = time.time_ns()
    process.send_signal(signal.SIGTERM)
    told = json.loads(process.stdout.readline())
    return {**{phase: (told[phase] - sent_at) / 1e6 for phase in PHASES}, "cpu": told["cpu_ns"] / 1e6}


# The others


def compute() -> None:
    while True:
        hashlib.pbkdf2_hmac("sha256", b"", b"", STEP_ROUNDS)


def write(folder: Path) -> None:
    content = bytes(WRITES_BYTES)
    while True:
        with (folder / str(os.getpid())).open("wb") as file:
            file.write(content)
            os.fsync(file.fileno())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--signals", type=int, default=60)
    parser.add_argument("--others", type=int, default=15)
    parser.add_argument("--python", action="store_true", help="steps of pure Python")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--other", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--writes", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train:
        train(given.train, python_step if given.python else native_step)
    elif given.other:
        write(given.other) if given.writes else compute()
    else:
        with tempfile.TemporaryDirectory() as folder:
            show(measured(Path(folder), given), given)


def measured(folder: Path, given: argparse.Namespace) -> list[dict[str, float]]:
    """The milliseconds of each signal."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # or the others would be left
    command = [sys.executable, __file__, "--train", str(folder), *(["--python"] if given.python else [])]
    training = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    command = [sys.executable, __file__, "--other", str(folder)]
    beside = [subprocess.Popen([*command, *([] if number % 5 else ["--writes"])]) for number in range(given.others)]
    try:
        return [signalled(training) for _ in range(given.signals)]
    finally:
        for process in (training, *beside):
            process.kill()
            process.wait()


def show(found: list[dict[str, float]], given: argparse.Namespace) -> None:
    """A table of the phases, and a file of all numbers."""
    load = os.getloadavg()[0]
    print(
        f"{len(found)} signals in steps of {'Python' if given.python else 'native code'}, {given.others} others, {len(os.sched_getaffinity(0))} CPUs, load {load:.0f}; ms"
    )
    print(f"over 100 ms: {sum(one['written'] > 100 for one in found)}")
    for name in (*PHASES, "cpu"):
        sizes = np.quantile([one[name] for one in found], [0.5, 0.9, 1.0])
        print(f"{name:8} median {sizes[0]:7.2f}   nine of ten {sizes[1]:7.2f}   worst {sizes[2]:7.2f}")
    if given.json:
        given.json.write_text(json.dumps({"command": sys.argv, "load": load, "signals": found}))


if __name__ == "__main__":
    main()
