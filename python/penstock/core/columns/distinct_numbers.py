"""Distinct numbers, without sorting if they are close together."""

from __future__ import annotations

import numpy as np

from penstock.core.columns.spec import Ids

#: Filling a table of up to this many entries a number is faster than sorting the numbers.
_TABLE_ROWS = 16


def distinct(numbers: Ids) -> tuple[Ids, Ids]:
    """What `np.unique(numbers, return_inverse=True)` returns: the sorted distinct numbers, and each number's index in them (int64).

    distinct(np.array([7, 5, 7])) == ([5, 7], [1, 0, 1])
    """
    least = int(numbers.min()) if len(numbers) else 0
    room = int(numbers.max()) - least + 1 if len(numbers) else 1
    if room > _TABLE_ROWS * len(numbers):
        found, place = np.unique(numbers, return_inverse=True)
        return found, place.astype(np.int64)
    table = np.zeros(room, dtype=np.int64)
    table[numbers - least] = 1
    found = np.flatnonzero(table)
    table[found] = np.arange(len(found))
    return found + least, table[numbers - least]
