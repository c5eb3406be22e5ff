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
from penstock.derived.row_cache.columns import Held
from penstock.derived.row_cache.disk import SUFFIX, files_of, good_rows
from penstock.derived.row_cache.rows import Parts
from penstock.derived.row_cache.spaces import FileSpace
from penstock.derived.row_cache.table import open_table, read_header

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
        return [name.removesuffix(SUFFIX) for name in names if read_header(os.path.join(folder, name)) is not None]
    return []


def listed_in(folder: str) -> list[Listed]:
    """What a folder holds, the last used first."""
    found = []
    for key in tables_in(folder):
        path = os.path.join(folder, key + SUFFIX)
        with contextlib.suppress(OSError, KeyError, TypeError, ValueError):
            header = read_header(path) or {}
            columns = [Held.of_json(one) for one in header["columns"]]
            table, _ = open_table(path, header, header["rows"], sum(one.form != "fixed" for one in columns))
            about = Listed(
                key=key,
                about=str(header["about"]),
                columns=tuple(f"{one.name} {one}" for one in columns),
                rows=header["rows"],
                held=int(np.count_nonzero(table.present)),
                size_bytes=sum(map(_disk_bytes, _paths(folder, key, header))),
                used_at=os.stat(path).st_mtime,
            )
            found.append(about)
    return sorted(found, key=lambda one: -one.used_at)


def remove(folder: str, key: str) -> int:
    """Removes a cache; how many bytes that freed. Processes that use it go on with what they have open."""
    freed = 0
    for path in _paths(folder, key, read_header(os.path.join(folder, key + SUFFIX)) or {}):
        with contextlib.suppress(OSError):
            size = _disk_bytes(path)
            os.unlink(path)
            freed += size
    return freed


def verify(folder: str, key: str, report: Callable[[int, int], None] = lambda _, __: None) -> tuple[int, int]:
    """Compares all rows with their checksums; how many there are, and how many were damaged, which are there no more."""
    path = os.path.join(folder, key + SUFFIX)
    header = read_header(path) or {}
    try:
        held = tuple(map(Held.of_json, header["columns"]))
        table, _ = open_table(path, header, header["rows"], sum(one.form != "fixed" for one in held))
        assert table.file is not None
        names = enumerate(files_of(key, header))
        fixed, others = (FileSpace(os.path.join(folder, name), table.file, number) for number, name in names)
    except (OSError, KeyError, TypeError, ValueError):
        all_rows = int(header.get("rows", 1))
        remove(folder, key)
        return all_rows, all_rows
    parts, bad, lost = Parts(held=held, table=table, fixed=fixed, others=others), 0, lost_memory()
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


def _paths(folder: str, key: str, header: dict[str, Any]) -> list[str]:
    names = [key + SUFFIX, *(files_of(key, header) if "made" in header else ())]
    return [os.path.join(folder, name) for name in names]


def _disk_bytes(path: str) -> int:
    with contextlib.suppress(OSError):
        return os.stat(path).st_blocks * 512
    return 0
