"""Byte ranges of files, local or remote: the interface through which formats read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from penstock.core.shards import Shards
from penstock.core.spec import Bytes, Ids

#: Finds single files by path or URL: returns their listing, in the given order, and a reader of them.
Locate = Callable[[Sequence[str]], tuple[Shards, "ReadRanges"]]


#: Reports progress: (done, total) in bytes or files.
Progress = Callable[[int, int], None]


class ReadRanges(Protocol):
    """Reads many byte ranges at once, in native threads, into one buffer."""

    def __call__(self, shards: Shards, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> None:
        """Fill out[at[i] : at[i] + length[i]] with length[i] bytes of shards[shard[i]] from offset[i].

        Raises DataError with the file's name if it is missing, shorter than the range, or no longer of the size in `shards`.
        """


def read_range(read: ReadRanges, shards: Shards, shard: int, offset: int, length: int) -> Bytes:
    """One byte range of one shard."""
    out = np.empty(length, dtype=np.uint8)
    number, begin, size, at = (np.array([one], dtype=np.int64) for one in (shard, offset, length, 0))
    read(shards, number, begin, size, out, at)
    return out


def forget(read: ReadRanges, shards: Shards) -> None:
    """Evict files from the cache behind `read`, once a format has its own copies of them, so that nothing is cached twice."""
    drop = getattr(read, "forget", None)
    if drop is not None:
        drop(shards)
