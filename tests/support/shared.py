"""Memory that processes share by name."""

from __future__ import annotations

import os


def shared_memory() -> set[str]:
    """Names in /dev/shm, without those of database servers that other tests run."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("PostgreSQL.")}
