"""MXNet's .idx files beside files of records that lie elsewhere: with them no record has to be read to know where they lie.

They are trusted as far as the records that are looked at agree; the data of every record is checked again when it is read.
"""

from __future__ import annotations

import numpy as np

from penstock.core.byte_ranges import ByteRanges, read_ranges
from penstock.core.errors import SourceError
from penstock.core.options import Options
from penstock.core.shards import Shards
from penstock.core.spec import Ids
from penstock.derived.decompressed_shards import read_whole

_MAGIC = 0xCED7230A
_HEADER_BYTES = 8
#: Bytes that a line has at most on average; a longer file is none of positions.
_LINE_BYTES = 64
#: Records whose headers are looked at.
_PROBES = 64


def stated_lengths(shards: Shards, shard: int, read: ByteRanges, options: Options) -> Ids | None:
    """The length of every record, in the file's order; None where there is no .idx file, or it does not fit the records."""
    path, size = shards.path(shard), int(shards.sizes[shard])
    if options.locate is None or not path.endswith(".rec"):
        return None
    try:
        beside, read_beside = options.locate([path.removesuffix("rec") + "idx"])
    except SourceError:
        return None
    if beside.sizes[0] > (size // _HEADER_BYTES + 1) * _LINE_BYTES:
        return None
    starts = _parse(read_whole(beside, 0, read_beside).tobytes())
    if starts is None or not starts.size or starts[0] != 0:
        return None
    length = np.diff(starts, append=size)
    sound = (starts % 4 == 0).all() and (length >= _HEADER_BYTES).all() and length.max() <= options.limits.record_bytes
    return length if sound and _agree(shards, shard, read, starts, length) else None


def _parse(text: bytes) -> Ids | None:
    """The numbers at the end of each line, ascending."""
    try:
        return np.sort(np.array([line.split()[-1] for line in text.split(b"\n") if line.strip()]).astype(np.int64))
    except ValueError:
        return None


def _agree(shards: Shards, shard: int, read: ByteRanges, starts: Ids, length: Ids) -> bool:
    """Whether records begin where they should, and those of one part end there as well."""
    probe = np.unique(np.linspace(0, len(starts) - 1, min(_PROBES, len(starts))).astype(np.int64))
    found = read_ranges(read, shards, np.full_like(probe, shard), starts[probe], np.full_like(probe, _HEADER_BYTES))
    magic, word = found.buffers[0].view("<u4").reshape(-1, 2).T.astype(np.int64)
    kind, data = word >> 29, word & 0x1FFFFFFF
    whole = _HEADER_BYTES + (data + 3) // 4 * 4
    fits = np.where(kind == 0, whole == length[probe], (kind == 1) & (whole < length[probe]))
    return bool(((magic == _MAGIC) & fits).all())
