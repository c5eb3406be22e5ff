"""As many rows of every class, to the row."""

from __future__ import annotations

import numpy as np

from penstock.core.spec import Ids
from penstock.order.classes import Classes, in_rounds
from penstock.order.keys import hashed


def balanced(keys: Ids, code: Ids, seed: int, *, over: bool) -> Ids:
    """The places of rows so that every class comes equally often.

    over: as often as the most frequent one, each row as often as any other of its class, or once more. Else as often as the rarest one,
    no row twice, in order.
    """
    classes = Classes(code, hashed(keys, seed))
    rows = classes.rows
    if not over:
        return np.flatnonzero(classes.chosen(np.full(len(rows), rows[rows > 0].min())))
    most = int(rows.max())
    each, more = np.divmod(most, np.maximum(rows, 1))
    return in_rounds(each[code] + classes.chosen(more))
