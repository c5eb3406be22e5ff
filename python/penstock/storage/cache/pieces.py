"""The bytes of a cache's pieces, compared with their checksums at every read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from penstock.core import kernels
from penstock.core.columns.spec import Bytes, Ids
from penstock.storage.cache.extents import BLOCK_BYTES
from penstock.storage.cache.index import FoundRanges, Index

#: Pieces that are verified between two reports.
_TOGETHER = 256
_THREADS = 4


class CachedPieces:
    """Reads and writes the pieces of an index, and evicts damaged ones."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def sums(self, out: Bytes, at: Ids, length: Ids) -> Any:
        """The checksums of parts of `out`."""
        return kernels.crc32c_sums(out, at, length, _THREADS)

    def write(self, pack: int, first: int, out: Bytes, at: Ids, length: Ids) -> None:
        """Write parts of `out` to a pack, one after the other, each followed by the checksums of its blocks if it has several."""
        sums = self._sums_of_blocks(out, at, length)
        parts = (out[begin : begin + size] for begin, size in zip(at.tolist(), length.tolist(), strict=True))
        buffers = [part.data for pair in zip(parts, sums, strict=True) for part in pair if len(part)]
        self._index.packs.write(pack, first, buffers)

    def _sums_of_blocks(self, out: Bytes, at: Ids, length: Ids) -> list[Bytes]:
        count = np.where(length > BLOCK_BYTES, -(-length // BLOCK_BYTES), 0)
        which = np.repeat(np.arange(len(length)), count)
        first = (np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)) * BLOCK_BYTES
        sums = self.sums(out, at[which] + first, np.minimum(length[which] - first, BLOCK_BYTES)).astype("<u4")
        return [part.view(np.uint8) for part in np.split(sums, np.cumsum(count)[:-1])]

    def read(self, found: FoundRanges, out: Bytes) -> Ids:
        """Read pieces and compare checksums; returns the numbers of damaged pieces."""
        pieces = found.pieces
        rows = np.ascontiguousarray(found.rows).view(np.uint8)
        return found.number[self._index.packs.read(rows, pieces.begin, pieces.length, out, pieces.at)]

    def verify(self, progress: Callable[[int, int], None] | None = None) -> tuple[int, int]:
        """Read everything and evict what is damaged; returns the pieces read and the pieces evicted."""
        number, generation, rows = self._index.live()
        turn = np.lexsort((rows["position"], rows["pack"]))
        total, done, damaged = int((rows["end"] - rows["begin"]).sum()), 0, 0
        for first in range(0, len(turn), _TOGETHER):
            some = turn[first : first + _TOGETHER]
            good = np.array([self._is_whole(rows[one : one + 1]) for one in some.tolist()])
            damaged += self._index.drop(number[some[~good]], generation)
            done += int((rows["end"] - rows["begin"])[some].sum())
            if progress is not None:
                progress(done, total)
        return len(number), damaged

    def _is_whole(self, row: Any) -> bool:
        """Whether a piece can be read and its checksums match."""
        length, zero = row["end"] - row["begin"], np.zeros(1, dtype=np.int64)
        scratch = np.empty(int(length[0]), dtype=np.uint8)
        begin = np.ascontiguousarray(row["begin"])
        try:
            return not len(self._index.packs.read(row.view(np.uint8), begin, length, scratch, zero))
        except OSError:
            return False
