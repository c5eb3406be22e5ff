"""Formats: bytes to columns. One file each and one row here; a folder's layout, a file's suffix, then its first bytes, choose."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import PlanError, SourceError
from penstock.format import image_folder, tfrecord
from penstock.format.protocol import AnySource, Format, Options, ReadRanges
from penstock.shards import Shards

FORMATS: tuple[Format, ...] = (image_folder.FORMAT, tfrecord.FORMAT)

_HEAD_BYTES = 512


def open_source(where: str, shards: Shards, read: ReadRanges, options: Options, name: str | None = None) -> AnySource:
    """Opens files as one dataset; `name` forces the format."""
    format, chosen = (_by_name(name), shards) if name is not None else _choose(where, shards, read)
    if unknown := set(options.own) - set(format.options):
        known = "; ".join(f"{option}: {text}" for option, text in format.options.items()) or "none"
        raise PlanError(f"read: {format.name} has no option {', '.join(sorted(unknown))}; its options: {known}")
    return format.open(chosen, read, options)


def _choose(where: str, shards: Shards, read: ReadRanges) -> tuple[Format, Shards]:
    """The format of files, and those of them that are of it."""
    for format in FORMATS:
        if format.claims(shards):
            return format, shards
    lowered = pc.utf8_lower(shards.paths)
    matches = {format.name: _ends_with(lowered, format.suffixes) for format in FORMATS}
    best = max(FORMATS, key=lambda format: int(matches[format.name].sum()))
    if matches[best.name].any():
        return best, shards.take(np.flatnonzero(matches[best.name]))
    head = read_head(shards, read)
    for format in FORMATS:
        if format.matches(head):
            return format, shards
    known = ", ".join(format.name for format in FORMATS)
    raise SourceError(
        f"{where}: {shards.path(0)} begins with {head[:8].hex(' ') or 'nothing (it is empty)'}, which no format claims; "
        f"formats: {known}; pass format='…' if you know better"
    )


def read_head(shards: Shards, read: ReadRanges, shard: int | None = None) -> bytes:
    """The first bytes (up to 512) of a shard, by default of the first that is not empty."""
    if shard is None:
        shard = int(np.argmax(shards.sizes > 0))
    size = min(int(shards.sizes[shard]), _HEAD_BYTES)
    out = np.empty(size, dtype=np.uint8)
    ids = [np.array([number], dtype=np.int64) for number in (shard, 0, size, 0)]
    read(shards, ids[0], ids[1], ids[2], out, ids[3])
    return out.tobytes()


def _by_name(name: str) -> Format:
    for format in FORMATS:
        if format.name == name:
            return format
    raise SourceError(f"format={name!r} is not known; formats: {', '.join(format.name for format in FORMATS)}")


def _ends_with(names: pa.LargeStringArray, suffixes: tuple[str, ...]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    found = np.zeros(len(names), dtype=bool)
    for suffix in suffixes:
        found |= pc.ends_with(names, suffix).to_numpy(zero_copy_only=False)
    return found
