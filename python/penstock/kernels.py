"""The only importer of the compiled module; the kernels' signatures stand in `_core.pyi`."""

from __future__ import annotations

from penstock._core import (
    EpochOrder,
    gather_rows,
    join_spans,
    mix,
    read_ranges,
    stat_files,
    walk_files,
)
from penstock._core import __version__ as native_version

__all__ = [
    "EpochOrder",
    "gather_rows",
    "join_spans",
    "mix",
    "native_version",
    "read_ranges",
    "stat_files",
    "walk_files",
]
