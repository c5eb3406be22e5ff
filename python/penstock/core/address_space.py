"""A limit on the process's address space (`ulimit -v`): how much of it is left, and how to live with little.

The C library reserves 64 MiB of addresses for each of up to eight threads a CPU, whether they are used or not. Under a limit of a gigabyte nothing
would be left for the data, so that threads then share two such arenas.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

_ARENA_BYTES, _ARENAS_A_CPU = 64 << 20, 8
#: Of the address space that is left, arenas may reserve this part; otherwise there are few.
_SHARE = 2
#: malloc.h: M_ARENA_MAX.
_ARENA_MAX, _FEW = -8, 2


def address_bytes_left() -> int | None:
    """Bytes of addresses that the process may still take; None where there is no limit."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return limit
    return max(0, limit - pages * resource.getpagesize())


def spare_addresses() -> None:
    """Where threads would reserve most of what is left, they share a few arenas from now on."""
    if sys.platform != "linux" or (left := address_bytes_left()) is None:
        return
    if left < _SHARE * _ARENA_BYTES * _ARENAS_A_CPU * (os.cpu_count() or 1):
        with suppress(AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(_ARENA_MAX, _FEW)
