"""Rows divided into parts by random numbers that belong to them, so that rows that are added move no other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from penstock.core.spec import Ids
from penstock.order.classes import Classes
from penstock.order.keys import hashed, shares


def split_by_key(keys: Ids, seed: int, parts: Sequence[float]) -> Ids:
    """The part of every row: rows with equal keys are in one part; shares are as chance has it."""
    edges = np.cumsum(parts)[:-1]
    return np.searchsorted(edges, shares(hashed(keys, seed)), side="right")


def split_classes(keys: Ids, code: Ids, seed: int, parts: Sequence[float]) -> Ids:
    """The part of every row: in each class, every part has its share, rounded up or down.

    Which parts are rounded up differs from class to class by chance, so that shares are exact over many small classes as well.
    """
    classes = Classes(code, hashed(keys, seed))
    rows = classes.rows
    begin = shares(hashed(np.arange(len(rows)), seed))
    part = np.zeros(len(code), dtype=np.int64)
    for edge in np.cumsum(parts)[:-1].tolist():
        part += ~classes.chosen(np.floor(rows * edge + begin).astype(np.int64))
    return part


def part_rows(part: Ids, number: int) -> npt.NDArray[np.int64]:
    """The rows of a part."""
    return np.flatnonzero(part == number)
