"""What a folder holds of `cache()`, for the command line."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.cpus import usable_cpus
from penstock.core.kernels import lost_memory
from penstock.derived.row_cache.disk import good_rows, open_parts, remove
from penstock.derived.row_file import SUFFIX, read_facts

_NAME = re.compile(r"[0-9a-f]{32}" + re.escape(SUFFIX))
#: Rows that are compared with their checksums by one call.
_TOGETHER = 4096


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One cache. about: what was done to the rows, rows: how many there may be, held: how many are there."""

    key: str
    about: str
    columns: tuple[str, ...]
    rows: int
    held: int
    size_bytes: int
    used_at: float


def tables_in(folder: str) -> list[str]:
    """The keys of the caches in a folder."""
    with contextlib.suppress(OSError):
        names = sorted(name for name in os.listdir(folder) if _NAME.fullmatch(name))
        return [name.removesuffix(SUFFIX) for name in names if _facts_of(os.path.join(folder, name))]
    return []


def _facts_of(path: str) -> dict[str, Any]:
    """What a file says of itself; nothing for one that is none of `cache()`."""
    with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:
        return read_facts(file)
    return {}


def listed_in(folder: str) -> list[Listed]:
    """What a folder holds, the last used first."""
    found = []
    for key in tables_in(folder):
        path = os.path.join(folder, key + SUFFIX)
        with contextlib.suppress(OSError, ValueError):
            parts, facts = open_parts(path)
            about = Listed(
                key=key,
                about=facts["about"],
                columns=tuple(f"{one.name} {one}" for one in parts.held),
                rows=facts["rows"],
                held=int(np.count_nonzero(parts.table.present)),
                size_bytes=os.stat(path).st_blocks * 512,
                used_at=os.stat(path).st_mtime,
            )
            found.append(about)
    return sorted(found, key=lambda one: -one.used_at)


def verify(folder: str, key: str, report: Callable[[int, int], None] = lambda _, __: None) -> tuple[int, int]:
    """Compares all rows with their checksums; how many there are, and how many were damaged, which are there no more."""
    path = os.path.join(folder, key + SUFFIX)
    try:
        parts, _ = open_parts(path)
    except (OSError, ValueError):
        all_rows = int(_facts_of(path).get("rows", 1))
        remove(folder, key)
        return all_rows, all_rows
    table, bad, lost = parts.table, 0, lost_memory()
    there = np.flatnonzero(table.present == 1)
    for first in range(0, len(there), _TOGETHER):
        rows = there[first : first + _TOGETHER]
        good = good_rows(parts, rows, usable_cpus())
        bad += int(np.count_nonzero(~good))
        if table.writes:
            table.mark(rows[~good], 0)
        report(min(first + _TOGETHER, len(there)), len(there))
    if lost_memory() != lost and not table.is_whole:
        remove(folder, key)
    return len(there), bad
