"""Memory that processes share by name, and threads: what tests look for that must be gone."""

from __future__ import annotations

import os
import threading


def shared_memory() -> set[str]:
    """Names in /dev/shm, without those of database servers that other tests run."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("PostgreSQL.")}


def new_threads(before: set[threading.Thread]) -> list[str]:
    """Names of threads that run and did not run before; those of earlier tests' loaders may end meanwhile."""
    return [thread.name for thread in threading.enumerate() if thread not in before]
