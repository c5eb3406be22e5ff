"""Rows drawn by weights, with and without replacement; any number of rows, by arithmetic that is the same everywhere."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.core.kernels import EpochOrder, mix
from penstock.core.spec import Ids
from penstock.order.classes import in_rounds
from penstock.order.keys import PICK_KEY, hashed, shares

Weights = npt.NDArray[np.float64]


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
