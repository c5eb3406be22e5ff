"""How many threads there may be: what the process may use, not what the machine has."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP_LIMIT = Path("/sys/fs/cgroup/cpu.max")


def usable_cpus() -> int:
    """CPUs that this process may use: its affinity, cut to the quota of its control group, at least 1."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _CGROUP_LIMIT.read_text().split()[:2]
        limit = int(quota) / int(period)
    except (OSError, ValueError):
        return allowed
    return max(1, min(allowed, -int(-limit // 1)))
