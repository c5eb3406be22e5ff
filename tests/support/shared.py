"""Memory that processes share by name, and threads: what tests look for that must be gone."""

from __future__ import annotations

import os
import threading


def shared_memory() -> set[str]:
    """Names of ours in /dev/shm; databases, Ray and PyTorch, which other processes test meanwhile, have theirs there, too."""
    return {name for name in os.listdir("/dev/shm") if "penstock" in name}


def new_threads(before: set[threading.Thread]) -> list[str]:
    """Names of threads that run and did not run before; those of earlier tests' loaders may end meanwhile."""
    return [thread.name for thread in threading.enumerate() if thread not in before]
