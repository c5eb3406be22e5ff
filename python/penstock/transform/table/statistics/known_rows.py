"""Which rows of which sources a recipe was fitted on, and the folds that they are in."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core import kernels
from penstock.core.columns.row_sources import RowsOfSource, RowSources
from penstock.core.columns.spec import Bytes, Ids

#: Mixed into the keys of folds, so that no other draw of a row is like them.
_FOLD_KEY = 0x464F4C44
#: Of every byte, how many of its bits are set.
_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1)


def fold_of(numbers: Ids, folds: int, seed: int) -> Ids:
    """The fold of rows, by their numbers in their source and the seed alone: fold_of(np.arange(4), 5, 0) == [3, 0, 1, 3]."""
    keys = np.empty(len(numbers), np.uint64)
    kernels.row_keys(np.ascontiguousarray(numbers), kernels.mix([seed, _FOLD_KEY]), keys)
    return (keys % np.uint64(folds)).astype(np.int64)


class KnownRows:
    """Adds up which rows were met: a bit for each row of a source."""

    def __init__(self) -> None:
        self._bits = dict[str, Bytes]()
        self._samples = dict[str, int]()

    def add(self, rows: RowsOfSource) -> None:
        """Takes rows of a source."""
        bits = self._of(rows.digest, rows.samples)
        first = int(rows.numbers.min()) & ~7
        flags = np.zeros(int(rows.numbers.max()) + 1 - first, np.bool_)
        flags[rows.numbers - first] = True
        packed = np.packbits(flags, bitorder="little")
        bits[first >> 3 : (first >> 3) + len(packed)] |= packed

    def merge(self, other: KnownRows) -> None:
        """Takes what another one took."""
        for digest, bits in other._bits.items():
            mine = self._of(digest, other._samples[digest])
            mine |= bits

    def _of(self, digest: str, samples: int) -> Bytes:
        self._samples[digest] = samples
        return self._bits.setdefault(digest, np.zeros((samples + 7) // 8, np.uint8))

    @property
    def described(self) -> dict[str, str | None]:
        """Plain JSON: by the digests of sources their bits, None for all rows."""
        found = dict[str, str | None]()
        for digest, bits in sorted(self._bits.items()):
            is_whole = int(_ONES[bits].sum()) == self._samples[digest]
            found[digest] = None if is_whole else base64.b64encode(bits.tobytes()).decode()
        return found


@dataclass(frozen=True)
class Folds:
    """How rows that a recipe was fitted on are told from others, and the fold of each. rows: `KnownRows.described`, as pairs."""

    count: int
    seed: int
    rows: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, count: int, seed: int, rows: Mapping[str, str | None]) -> Folds:
        """Those of rows that `KnownRows` described."""
        return cls(count, seed, tuple(rows.items()))

    @cached_property
    def digest(self) -> str:
        """32 hex digits of all that it says."""
        return hashlib.blake2b(repr((self.count, self.seed, self.rows)).encode(), digest_size=16).hexdigest()

    @cached_property
    def _bits(self) -> dict[str, Any]:
        return {
            digest: None if bits is None else np.frombuffer(base64.b64decode(bits), np.uint8)
            for digest, bits in self.rows
        }

    def among(self, digests: Iterable[str | None]) -> bool:
        """Whether rows of these data were fitted on."""
        known = {digest for digest, _ in self.rows}
        return any(digest in known for digest in digests)

    def versions(self, sources: RowSources, ids: Ids) -> Ids:
        """The version of a table that counts for rows: 1 + its fold for one that was fitted on, 0 for others."""
        found = np.zeros(len(ids), np.int64)
        for rows in sources.divided(ids):
            if rows.digest in self._bits:
                folds = fold_of(rows.numbers, self.count, self.seed) + 1
                found[rows.places] = np.where(_among(rows.numbers, self._bits[rows.digest]), folds, 0)
        return found


def _among(numbers: Ids, bits: Bytes | None) -> npt.NDArray[np.bool_] | bool:
    if bits is None:
        return True
    found: npt.NDArray[np.bool_] = (bits[numbers >> 3] >> (numbers & 7).astype(np.uint8)) & 1 == 1
    return found
