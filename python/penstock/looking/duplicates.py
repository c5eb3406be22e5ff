"""Which rows are copies of others, exactly or nearly: `deduplicate`. Looked at once, when it is written, in the plan's natural order.

A row becomes some numbers: one digest of its bytes, or one of each band of its MinHash signature. Rows that agree in one are in one set, whatever the order of looking, and of each set one row stays.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core import kernels
from penstock.core.arguments import check_whole, is_one_of
from penstock.core.columns.spec import Ids, is_bytes, is_text
from penstock.core.columns.text_parts import text_parts, threads_for
from penstock.core.errors import PlanError
from penstock.core.files.byte_ranges import Progress
from penstock.core.files.cache_dirs import cache_folder
from penstock.core.files.scratch import check_room, room_errors
from penstock.core.messages import quoted
from penstock.looking.column_values import check_expression, mapped_values
from penstock.looking.rows import Looking
from penstock.plan.expression import Expression, expression_of
from penstock.plan.nodes import Node
from penstock.plan.nodes.picked import Deduplicate

#: Digests of more bytes lie in a file that has no name.
_MOST_HELD = 1 << 30
#: Changes when the kernel hashes words in another way, so that other rows may be picked.
_HASHES = 2
#: Rows have numbers of 32 bits here.
_MOST_ROWS = (1 << 32) - 2
#: Words of an n-gram.
_MOST_WORDS = 1000
#: Seeds are below this.
_SEEDS = (1 << 63) - 1
#: Numbers of a signature.
_MOST_HASHES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class MinHashSettings:
    """How texts are compared: see `Dataset.deduplicate`."""

    n_grams: int
    num_buckets: int
    hashes_per_bucket: int
    seed: int

    def __post_init__(self) -> None:
        """PlanError for numbers that make no signature."""
        check_whole("deduplicate", _MOST_WORDS, n_grams=self.n_grams)
        check_whole("deduplicate", _MOST_HASHES, num_buckets=self.num_buckets, hashes_per_bucket=self.hashes_per_bucket)
        if type(self.seed) is not int or not 0 <= self.seed < _SEEDS:
            raise PlanError(f"deduplicate: seed={quoted(self.seed)}; pass a whole number from 0 to {_SEEDS - 1:,}")
        if self.num_buckets * self.hashes_per_bucket > _MOST_HASHES:
            raise PlanError(
                f"deduplicate: num_buckets={self.num_buckets:,}, hashes_per_bucket={self.hashes_per_bucket:,}; "
                f"there are {_MOST_HASHES:,} hashes at most"
            )


def deduplicate_rows(
    root: Node, by: Any, how: str, keep: str, settings: MinHashSettings, progress: Progress | None
) -> Deduplicate:
    """One row of each set of those that are alike."""
    looking = Looking("deduplicate", root, progress)
    if not is_one_of(how, ("exact", "minhash")):
        raise PlanError(f"deduplicate: how={quoted(how)}; choose 'exact' or 'minhash'")
    if not is_one_of(keep, ("first", "last")):
        raise PlanError(f"deduplicate: keep={quoted(keep)}; choose 'first' or 'last'")
    expression = expression_of("deduplicate", by)
    kind = getattr(check_expression("deduplicate", root, expression), "type", None)
    if kind is None or not (is_text(kind) or (how == "exact" and is_bytes(kind))):
        raise PlanError(
            f"deduplicate: {quoted(expression)} is {kind or 'numbers'}, and {'text or bytes' if how == 'exact' else 'text'} can be compared; "
            f"cast('string') makes text of numbers"
        )
    if looking.rows > _MOST_ROWS:
        raise PlanError(f"deduplicate: {looking.rows:,} rows, of which there may be {_MOST_ROWS:,}; divide the data")
    words = "exact" if how == "exact" else repr(settings)

    def make() -> list[Ids]:
        first = _Rows(looking.rows, 2 if how == "exact" else settings.num_buckets, joined=how == "exact")
        return [_kept(first.sets("deduplicate", root, expression, words, settings, progress), keep)]

    hashes = "" if how == "exact" else f" hashes {_HASHES}"
    (picked,) = looking.picked([f"{expression!r} {words} {keep}{hashes}"], make)
    return Deduplicate(input=root, by=repr(expression), how=words, keep=keep, picked=picked)


def _kept(roots: npt.NDArray[np.uint32], keep: str) -> Ids:
    """The rows that stay, of the first row of each row's set."""
    rows = np.arange(len(roots))
    if keep == "first":
        return np.flatnonzero(roots == rows)
    last = np.zeros(len(roots), dtype=np.int64)
    last[roots] = rows  # the last one of each set is written last
    return np.sort(last[np.flatnonzero(roots == rows)])


class _Rows:
    """What rows are compared by: numbers of each, in memory or in a file. joined: whether all of them are one."""

    def __init__(self, rows: int, numbers: int, *, joined: bool) -> None:
        self._rows, self._joined, self._done = rows, joined, 0
        self._present = np.zeros(rows, dtype=np.bool_)
        shape = (rows, numbers) if joined else (numbers, rows)
        self._numbers = _room(shape)

    def sets(
        self,
        verb: str,
        root: Node,
        expression: Expression,
        words: str,
        settings: MinHashSettings,
        progress: Progress | None,
    ) -> npt.NDArray[np.uint32]:
        """The first row of each row's set."""
        places = mapped_values(
            verb, root, expression, lambda column: self._note(column, settings), np.zeros(0, np.int64), progress
        )
        in_order = bool((places == np.arange(len(places))).all())
        present = self._present[places]
        roots = np.arange(len(places), dtype=np.uint32)
        for numbers in [self._numbers] if self._joined else self._numbers:
            one = np.ascontiguousarray(numbers if in_order else numbers[places])
            kernels.join_equal(roots, one.reshape(-1), present, one.shape[1] if self._joined else 1)
        kernels.name_by_first(roots)
        return roots

    def _note(self, column: Any, settings: MinHashSettings) -> Ids:
        """Keeps what some rows are compared by; the places where it lies."""
        assert isinstance(column, pa.Array)
        parts = text_parts(column)
        threads, begin = threads_for(parts), self._done
        rows = np.arange(begin, begin + len(column))
        self._done += len(column)
        self._present[rows] = True if parts[2] is None else ~parts[2]
        if self._joined:
            self._numbers[rows] = kernels.text_digests(parts, threads).reshape(-1, 2)
            return rows
        bands = kernels.text_bands(
            parts, settings.n_grams, settings.num_buckets, settings.hashes_per_bucket, settings.seed, threads
        )
        self._numbers[:, begin : begin + len(column)] = bands.reshape(-1, settings.num_buckets).T
        return rows


def _room(shape: tuple[int, int]) -> npt.NDArray[np.uint64]:
    """Memory for numbers; of many, a file in the cache's folder that vanishes with its last use."""
    size = shape[0] * shape[1] * 8
    folder = cache_folder("chosen") if size > _MOST_HELD else None
    if folder is None:
        return np.zeros(shape, dtype=np.uint64)
    check_room("deduplicate", folder, size, "what rows are compared by")
    with (
        room_errors("deduplicate", folder, size, "what rows are compared by"),
        tempfile.TemporaryFile(dir=folder) as file,
    ):
        os.posix_fallocate(file.fileno(), 0, size)
        return np.memmap(file, dtype=np.uint64, mode="r+", shape=shape)
