"""The only importer of the compiled module; the kernels' signatures stand in `_core.pyi`."""

from __future__ import annotations

from penstock._core import (
    EpochOrder,
    ExampleParser,
    ImageProgram,
    WorkProgress,
    decode_image,
    gather_rows,
    image_info,
    index_tfrecords,
    infer_examples,
    is_tfrecord,
    join_spans,
    jpeg_entry_points,
    mix,
    pick_rows,
    read_ranges,
    recognise_tfrecord_packing,
    stat_files,
    unpack_files_once,
    walk_files,
)
from penstock._core import __version__ as native_version

__all__ = [
    "EpochOrder",
    "ExampleParser",
    "ImageProgram",
    "WorkProgress",
    "decode_image",
    "gather_rows",
    "image_info",
    "index_tfrecords",
    "infer_examples",
    "is_tfrecord",
    "join_spans",
    "jpeg_entry_points",
    "mix",
    "native_version",
    "pick_rows",
    "read_ranges",
    "recognise_tfrecord_packing",
    "stat_files",
    "unpack_files_once",
    "walk_files",
]
