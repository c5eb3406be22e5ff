"""Which rows verbs choose, before any order of an epoch: `balance`, `split` and `sample`, as arithmetic on random numbers that belong to rows.

A row's number is the same whatever other rows there are, so that rows that are added move no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.core.columns.spec import Ids
from penstock.core.kernels import EpochOrder, mix
from penstock.order.keys import PICK_KEY, hashed, shares

Weights = npt.NDArray[np.float64]


def balanced(keys: Ids, code: Ids, seed: int, *, over: bool) -> Ids:
    """The places of rows so that every class comes equally often.

    over: as often as the most frequent one, each row as often as any other of its class, or once more. Else as often as the rarest one,
    no row twice, in order.
    """
    classes = RowClasses(code, hashed(keys, seed))
    rows = classes.rows
    if not over:
        return np.flatnonzero(classes.chosen(np.full(len(rows), rows[rows > 0].min())))
    most = int(rows.max())
    each, more = np.divmod(most, np.maximum(rows, 1))
    return in_rounds(each[code] + classes.chosen(more))


def split_by_key(keys: Ids, seed: int, parts: Sequence[float]) -> Ids:
    """The part of every row: rows with equal keys are in one part; shares are as chance has it."""
    edges = np.cumsum(parts)[:-1]
    return np.searchsorted(edges, shares(hashed(keys, seed)), side="right")


def split_classes(keys: Ids, code: Ids, seed: int, parts: Sequence[float]) -> Ids:
    """The part of every row: in each class, every part has its share, rounded up or down.

    Which parts are rounded up differs from class to class by chance, so that shares are exact over many small classes as well.
    """
    classes = RowClasses(code, hashed(keys, seed))
    rows = classes.rows
    begin = shares(hashed(np.arange(len(rows)), seed))
    part = np.zeros(len(code), dtype=np.int64)
    for edge in np.cumsum(parts)[:-1].tolist():
        part += ~classes.chosen(np.floor(rows * edge + begin).astype(np.int64))
    return part


def part_rows(part: Ids, number: int) -> npt.NDArray[np.int64]:
    """The rows of a part."""
    return np.flatnonzero(part == number)


def drawn_again(count: int, rows: int, weights: Weights | None, seed: int) -> Ids:
    """The places of `count` rows, drawn with replacement.

    Each row comes as often as its weight says, rounded up or down (systematic sampling of rows in a random order): nearer to the weights than
    independent draws, whose counts vary by their square roots.
    """
    key = mix([seed, PICK_KEY])
    turn = EpochOrder.shuffled(rows, 1, 1, 1, 1, key).lane_ids(0, 0, rows)
    if weights is None:
        edges = np.arange(1, rows + 1) / rows * count
    else:
        edges = np.cumsum(weights[turn] / weights.max())
        edges *= count / edges[-1]
    begin = shares(hashed(np.zeros(1, dtype=np.int64), seed))[0]
    ends = np.minimum(np.floor(edges + begin), count).astype(np.int64)
    ends[-1] = count
    copies = np.empty(rows, dtype=np.int64)
    copies[turn] = np.diff(ends, prepend=0)
    return in_rounds(copies)


def drawn_once(count: int, keys: Ids, weights: Weights | None, seed: int) -> Ids:
    """The places of `count` rows in ascending order, drawn without replacement: those with the largest keys u ** (1 / weight).

    Efraimidis and Spirakis, Weighted random sampling with a reservoir, 2006.
    """
    random = hashed(keys, seed)
    if count == len(keys):
        return np.arange(count)
    late = random if weights is None else -np.log(shares(random) + 2.0**-54) / weights
    if not count:
        return np.empty(0, dtype=np.int64)
    bound = np.partition(late, count - 1)[count - 1]
    first = np.flatnonzero(late < bound)
    ties = np.flatnonzero(late == bound)[: count - len(first)]
    return np.sort(np.concatenate([first, ties]))


@dataclass(frozen=True, eq=False)
class RowClasses:
    """The class of each row as a number from 0 on (code), and a random number for each row."""

    code: Ids
    random: npt.NDArray[np.uint64]

    @cached_property
    def rows(self) -> Ids:
        """How many rows each class has."""
        return np.bincount(self.code)

    @cached_property
    def _keys(self) -> npt.NDArray[np.uint64]:
        """The class of each row above its random number."""
        bits = max(1, int(self.code.max(initial=0)).bit_length())
        return self.code.astype(np.uint64) << np.uint64(64 - bits) | self.random >> np.uint64(bits)

    @cached_property
    def _ordered(self) -> npt.NDArray[np.uint64]:
        """The keys in order: class after class."""
        return np.sort(self._keys)

    def chosen(self, counts: Ids) -> npt.NDArray[np.bool_]:
        """Whether each row is among so many of its class, chosen at random; of more counts, those of fewer are among them."""
        last = np.cumsum(self.rows) - self.rows + np.minimum(counts, self.rows) - 1
        bound = self._ordered[np.maximum(last, 0)]
        found: npt.NDArray[np.bool_] = (self._keys <= bound[self.code]) & (counts > 0)[self.code]
        for code in np.flatnonzero(np.bincount(self.code[found], minlength=len(self.rows)) > counts).tolist():
            alike = np.flatnonzero(self._keys == bound[code])  # two rows with one random number, once in a blue moon
            found[alike[len(alike) - (int(found[self.code == code].sum()) - int(counts[code])) :]] = False
        return found


def in_rounds(copies: Ids) -> Ids:
    """Rows as often as `copies` says: each once, in order, then those that come a second time, and so on.

    in_rounds(np.array([1, 3, 0, 2])) == [0, 1, 3, 1, 3, 1]
    """
    rounds, left, done = [], np.flatnonzero(copies), 1
    while len(left):
        rounds.append(left)
        left, done = left[copies[left] > done], done + 1
    return np.concatenate([np.empty(0, dtype=np.int64), *rounds])
