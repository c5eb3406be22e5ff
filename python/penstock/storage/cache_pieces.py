"""The bytes of a cache's pieces, compared with their checksums when a process first uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from penstock import kernels
from penstock.spec import Bytes, Ids
from penstock.storage.cache_index import Found, Index

#: Pieces that are verified between two reports.
_TOGETHER = 256
_THREADS = 4


class Pieces:
    """Reads the pieces of an index; a damaged one is dropped from it."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def sums(self, out: Bytes, at: Ids, length: Ids) -> Any:
        """The checksums of parts of `out`."""
        return kernels.crc32c_sums(out, at, length, _THREADS)

    def read(self, found: Found, out: Bytes) -> bool:
        """Reads pieces, and compares the checksums of those that are used for the first time; a damaged one goes, and the answer is False."""
        rows, pieces, packs = found.rows, found.pieces, self._index.packs
        position = rows["position"] + pieces.begin - rows["begin"]
        packs.read(np.ascontiguousarray(rows["pack"]), position, pieces.length, out, pieces.at)
        fresh = np.flatnonzero(~rows["checked"])
        if not len(fresh):
            return True
        is_whole = pieces.length == rows["end"] - rows["begin"]
        there, others = fresh[is_whole[fresh]], fresh[~is_whole[fresh]]
        good = np.zeros(len(rows), dtype=bool)
        sums = self.sums(out, pieces.at[there], pieces.length[there])
        good[there] = sums == rows["checksum"][there]
        good[others] = self._are_whole(rows[others])
        self._index.checked(found.number[fresh[good[fresh]]], found.generation)
        bad = found.number[fresh[~good[fresh]]]
        if len(bad) and self._index.still(bad, found.generation):
            self._index.drop(bad, found.generation)
        return not len(bad)

    def verify(self, progress: Callable[[int, int], None] | None = None) -> tuple[int, int]:
        """Reads everything and drops what is damaged: pieces that were read, and pieces that were dropped."""
        number, generation, rows = self._index.live()
        turn = np.lexsort((rows["position"], rows["pack"]))
        total, done, damaged = int((rows["end"] - rows["begin"]).sum()), 0, 0
        for first in range(0, len(turn), _TOGETHER):
            some = turn[first : first + _TOGETHER]
            try:
                good = self._are_whole(rows[some])
            except OSError:  # of the pieces of a lost pack none can be read
                good = np.array([self._is_readable_and_whole(rows[one : one + 1]) for one in some.tolist()])
            damaged += self._index.drop(number[some[~good]], generation)
            done += int((rows["end"] - rows["begin"])[some].sum())
            if progress is not None:
                progress(done, total)
        return len(number), damaged

    def _is_readable_and_whole(self, row: Any) -> bool:
        try:
            return bool(self._are_whole(row)[0])
        except OSError:
            return False

    def _are_whole(self, rows: Any) -> Any:
        """Whether the checksums of pieces are right."""
        good, zero = np.zeros(len(rows), dtype=bool), np.zeros(1, dtype=np.int64)
        for number in range(len(rows)):
            row = rows[number : number + 1]
            scratch = np.empty(int(row["end"][0] - row["begin"][0]), dtype=np.uint8)
            length = np.array([len(scratch)], dtype=np.int64)
            self._index.packs.read(row["pack"], row["position"], length, scratch, zero)
            good[number] = kernels.crc32c_sums(scratch, zero, length, 1)[0] == row["checksum"][0]
        return good
