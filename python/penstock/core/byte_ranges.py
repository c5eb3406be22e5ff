"""Byte ranges of files, wherever they lie: what formats read by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from penstock.core.shards import Shards
from penstock.core.spec import Bytes, Ids

#: Finds single files by path or URL, wherever they lie: their listing, in the order given, and how to read them.
Locate = Callable[[Sequence[str]], tuple[Shards, "ReadRanges"]]


#: Reports work done so far: (done, total) in bytes or files.
Progress = Callable[[int, int], None]


class ReadRanges(Protocol):
    """Reads many byte ranges at once, in native threads, into one buffer."""

    def __call__(self, shards: Shards, shard: Ids, offset: Ids, length: Ids, out: Bytes, at: Ids) -> None:
        """Fills out[at[i] : at[i] + length[i]] with length[i] bytes of shards[shard[i]] from offset[i].

        Raises DataError naming the file if it is gone, shorter than the range, or no longer of the size in `shards`.
        """


def read_range(read: ReadRanges, shards: Shards, shard: int, offset: int, length: int) -> Bytes:
    """One byte range of one shard."""
    out = np.empty(length, dtype=np.uint8)
    number, begin, size, at = (np.array([one], dtype=np.int64) for one in (shard, offset, length, 0))
    read(shards, number, begin, size, out, at)
    return out


def forget(read: ReadRanges, shards: Shards) -> None:
    """Lets a cache behind `read` drop files that a format has made files of its own from, so that nothing is kept twice."""
    drop = getattr(read, "forget", None)
    if drop is not None:
        drop(shards)
