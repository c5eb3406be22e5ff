"""Starting beside a training loop without taking its CPU: what a process imports at first, it imports at low priority.

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

#: How much lower, of 19 steps: a thread that is ready gets about a tenth of a CPU that another one wants, and all of one that nobody wants.
_STEPS, _LOWEST = 10, 19
#: Libraries whose threads start as they are imported: these would keep the low priority.
_STARTED_BY_IMPORTS = ("OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def politely(work: Callable[[], Any]) -> None:
    """Does something at low priority, for what it leaves in `sys.modules` and in the system's caches: its caller does it again, and sees what it raises."""
    if sys.platform == "linux" and all(os.environ.get(name) == "1" for name in _STARTED_BY_IMPORTS):
        thread = threading.Thread(target=_at_low_priority, args=(work,), name="penstock-polite", daemon=True)
        thread.start()
        thread.join()


def import_politely(module: str) -> None:
    """Imports a module at low priority."""
    politely(lambda: import_module(module))


def _at_low_priority(work: Callable[[], Any]) -> None:
    with suppress(BaseException):
        mine = threading.get_native_id()
        lower = min(_LOWEST, os.getpriority(os.PRIO_PROCESS, mine) + _STEPS)
        os.setpriority(os.PRIO_PROCESS, mine, lower)
        work()
