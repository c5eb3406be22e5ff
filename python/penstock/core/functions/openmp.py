"""Keeps OpenMP, which torch computes with, from starting as many threads as there are CPUs for each thread that calls a user's function.

The limit is the calling thread's own: what the training loop set with torch.set_num_threads stays. Pools that a library has once for the whole process
(OpenCV's, BLAS's, those of tokenizers) grow with no thread that calls them, and are left alone.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import threading
from contextlib import suppress
from functools import cache
from typing import Any

_LIBRARY = re.compile(r"/lib(?:gomp|iomp5|omp)[^/]*\.so[^/]*$")
_limited = threading.local()


def one_thread_here() -> None:
    """What the calling thread computes with OpenMP runs in it alone from now on, unless OMP_NUM_THREADS says otherwise."""
    torch = sys.modules.get("torch")
    if getattr(_limited, "torch", _limited) is torch or "OMP_NUM_THREADS" in os.environ:
        return
    _limited.torch = torch
    with suppress(Exception):  # half imported, or no torch at all
        torch.get_num_threads()  # type: ignore[union-attr]  # which sets the thread's number when it is first asked
    for library in _libraries(torch is not None):
        with suppress(OSError, AttributeError):
            library.omp_set_num_threads(1)


@cache
def _libraries(_: bool) -> list[Any]:  # asked again after torch came
    """The OpenMP libraries of this process."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            paths = {line.split(maxsplit=5)[-1].rstrip() for line in maps if "omp" in line}
    except OSError:
        return []
    found = list[Any]()
    for path in sorted(filter(_LIBRARY.search, paths)):
        with suppress(OSError):
            found.append(ctypes.CDLL(path))
    return found
