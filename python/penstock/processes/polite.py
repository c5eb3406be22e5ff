"""Starting beside a training loop without taking its CPU: what a process imports at first, it imports at the lowest priority.

Linux has priorities of threads, and whoever lowers one may not raise it again. So a thread of its own does what takes seconds, and the main thread,
whose work is waited for later, keeps its priority. Elsewhere all is done once, at full priority.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

#: A thread that is ready gets a fiftieth of a CPU that another one wants, and all of one that nobody wants. PyTorch's threads want theirs while they wait for each other (they spin),
#: so that the policy SCHED_IDLE would leave such a thread nothing, for good; ten steps took a tenth of the training's speed.
_LOWEST = 19
#: Libraries whose threads start as they are imported: these would keep that priority.
_STARTED_BY_IMPORTS = ("OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def politely(work: Callable[[], Any]) -> None:
    """Does something at the lowest priority, for what it leaves in `sys.modules` and in the system's caches: its caller does it again, and sees what it raises."""
    if sys.platform == "linux" and all(os.environ.get(name) == "1" for name in _STARTED_BY_IMPORTS):
        thread = threading.Thread(target=_at_lowest_priority, args=(work,), name="penstock-polite", daemon=True)
        thread.start()
        thread.join()


def import_politely(module: str) -> None:
    """Imports a module at the lowest priority."""
    politely(lambda: import_module(module))


def _at_lowest_priority(work: Callable[[], Any]) -> None:
    with suppress(BaseException):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST)
        work()
