"""When processes began, by which one is told from another that has its number later."""

from __future__ import annotations

from pathlib import Path

#: A process that began so much later than a loader is another one, where only a clock says when it began.
_CLOCK_S = 2.0


def process_ticks(pid: int) -> int:
    """When a process began, in ticks since the machine did: no clock that is set changes it. 0 where there is none, or the system does not tell."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        return int(told.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def is_another(pid: int, ticks: int, started_at: float) -> bool:
    """Whether the process that has this number is not the one that began at these ticks; where these are 0, by whether it began after a time. psutil.NoSuchProcess where none has it."""
    import psutil

    began = process_ticks(pid)
    if ticks and began:
        return began != ticks
    return bool(psutil.Process(pid).create_time() > started_at + _CLOCK_S)
