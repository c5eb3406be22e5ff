"""The CPUs that this process may use, rather than those that the machine has."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP_LIMIT = Path("/sys/fs/cgroup/cpu.max")


def usable_cpus() -> int:
    """The number of CPUs that this process may use: its affinity, limited by its cgroup's quota, at least 1."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _CGROUP_LIMIT.read_text().split()[:2]
        limit = int(quota) / int(period)
    except (OSError, ValueError):
        return allowed
    return max(1, min(allowed, -int(-limit // 1)))
