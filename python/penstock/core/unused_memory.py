"""Memory that allocators keep for what is asked next, though nothing uses it: it goes back to the operating system where little may be held."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

import pyarrow as pa

#: A loader that may hold so much or more is not troubled by what allocators keep.
PLENTY_BYTES = 1 << 30
#: Of glibc's mallopt; from how many bytes on it asks the operating system for each piece of memory by itself.
_M_MMAP_THRESHOLD, _LARGE_BYTES = -3, 1 << 20


def give_back_unused() -> None:
    """Gives back what Arrow's allocator keeps, which may be as much again as was used at once; about a millisecond for 300 MB."""
    pa.default_memory_pool().release_unused()


@cache
def keep_no_large_pieces() -> None:
    """From now on, pieces of 1 MiB and more go back when they are free, in the whole process.

    Otherwise glibc learns from the first that is free to keep pieces of up to 32 MiB, for each thread. What the environment says of this is left as it is.
    """
    is_said = "MALLOC_MMAP_THRESHOLD_" in os.environ or "mmap_threshold" in os.environ.get("GLIBC_TUNABLES", "")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None and not is_said:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
