"""The only importer of the compiled module; the kernels' signatures stand in `_core.pyi`."""

from __future__ import annotations

from penstock._core import (
    EpochOrder,
    ImageProgram,
    decode_image,
    gather_rows,
    image_info,
    join_spans,
    mix,
    read_ranges,
    stat_files,
    walk_files,
)
from penstock._core import __version__ as native_version

__all__ = [
    "EpochOrder",
    "ImageProgram",
    "decode_image",
    "gather_rows",
    "image_info",
    "join_spans",
    "mix",
    "native_version",
    "read_ranges",
    "stat_files",
    "walk_files",
]
