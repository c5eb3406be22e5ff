"""How busy the machine and this process are: shares of all cores since they were looked at last, and since a pipeline began."""

from __future__ import annotations

import os
import time
from collections import deque
from contextlib import suppress
from glob import glob
from pathlib import Path
from typing import NamedTuple

from penstock.core.cpus import usable_cpus
from penstock.observe.snapshot import Machine

#: Shares of a shorter time say little: the kernel counts in hundredths of seconds.
_LEAST_S = 0.25
#: Waits for the interpreter that are kept, those of one look, and how long a nap is.
_LOOKS, _LOOKS_AT_ONCE, _NAP_S = 24, 4, 0.0005


class CpuTimes(NamedTuple):
    """Seconds so far. busy, io_wait: of all cores together; process: of this process; children: of processes that it started, and that these started."""

    at: float
    busy: float
    io_wait: float
    process: float
    children: float


class Looks(NamedTuple):
    """The times when a pipeline began, at the look before the last one, and at the last one."""

    began: CpuTimes
    before: CpuTimes
    seen: CpuTimes


class MachineWatch:
    """Looks at the machine, from any thread, without a lock, which a fork might copy while another thread holds it. `begin` says from when on means count."""

    def __init__(self) -> None:
        self._looks: Looks | None = None

    def begin(self) -> None:
        """A pipeline begins."""
        now = cpu_times()
        self._looks = Looks(now, now, now)

    def look(self) -> Machine:
        """The machine now."""
        if self._looks is None:
            self.begin()
        looks = self._looks
        assert looks is not None
        if time.perf_counter() - looks.seen.at >= _LEAST_S:
            newer = Looks(looks.began, looks.seen, cpu_times())
            if self._looks is looks:  # no pipeline began meanwhile
                self._looks = newer
            looks = newer
        began, before, seen = looks
        cores = os.cpu_count() or 1
        cpu, io_wait, process, _ = _shares(before, seen, cores)
        mean_cpu, mean_io_wait, mean_process, mean_children = _shares(began, seen, cores)
        return Machine(
            cores=cores,
            usable_cores=usable_cpus(),
            cpu=cpu,
            process_cpu=process,
            io_wait=io_wait,
            mean_cpu=mean_cpu,
            mean_process_cpu=mean_process,
            mean_children_cpu=mean_children,
            mean_io_wait=mean_io_wait,
            memory_bytes=_resident(),
            interpreter_wait_s=INTERPRETER.median_s(),
        )


class InterpreterWaits:
    """How long a thread waits for Python's interpreter: looked at now and then, by a thread that has slept."""

    def __init__(self) -> None:
        self._waits = deque[float](maxlen=_LOOKS)

    def look(self) -> None:
        """Sleeps a moment some times; what each takes longer than that, waits for the interpreter or for a CPU."""
        for _ in range(_LOOKS_AT_ONCE):
            before = time.perf_counter()
            time.sleep(_NAP_S)
            self._waits.append(max(0.0, time.perf_counter() - before - _NAP_S))

    def median_s(self) -> float:
        """Of the last looks; 0 before there are enough."""
        waits = sorted(self._waits.copy())
        return waits[len(waits) // 2] if len(waits) >= _LOOKS_AT_ONCE else 0.0


#: Of this process.
INTERPRETER = InterpreterWaits()


def cpu_times() -> CpuTimes:
    """Of the machine, of this process, and of its children."""
    import psutil

    machine = psutil.cpu_times()
    idle, io_wait = machine.idle, getattr(machine, "iowait", 0.0)
    guest = getattr(machine, "guest", 0.0) + getattr(machine, "guest_nice", 0.0)  # which user and nice have already
    busy = sum(machine) - guest - idle - io_wait
    return CpuTimes(time.perf_counter(), busy, io_wait, time.process_time(), _children_s())


def _children_s() -> float:
    """Of those that live, as Linux lists them (elsewhere 0), and of those that ended."""
    ended = os.times()
    seconds, found = ended.children_user + ended.children_system, _children_of("self")
    while found:
        pid = found.pop()
        with suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
            seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            found += _children_of(pid)
    return seconds


def _children_of(pid: str) -> list[str]:
    found = list[str]()
    for each in glob(f"/proc/{pid}/task/*/children"):
        with suppress(OSError):
            found += Path(each).read_text(encoding="ascii").split()
    return found


def _shares(before: CpuTimes, after: CpuTimes, cores: int) -> tuple[float, float, float, float]:
    """Of all cores, 0 … 1: busy, waiting for disks, this process, its children."""
    over = max(1e-9, cores * (after.at - before.at))
    if after.at <= before.at:
        return 0.0, 0.0, 0.0, 0.0
    found = [(one - other) / over for one, other in zip(after[1:], before[1:], strict=True)]
    busy, io_wait, process, children = (min(1.0, max(0.0, one)) for one in found)
    return busy, io_wait, process, children


def _resident() -> int:
    import psutil

    found: int = psutil.Process().memory_info().rss
    return found
