"""Which rows take the places of bad ones is a promise, as the order is: saved states mean nothing if it changes."""

from __future__ import annotations

import numpy as np

from penstock.order.substitutes import substitute
from support.orders import order_of

#: Of two sources of 60 and 40 rows, in epoch 2: rows 7 and 90 at their first two attempts.
PINNED = [[24, 2], [59, 2], [92, 2], [93, 2]]


def test_substitutes_are_pinned() -> None:
    order, first_ids = order_of(samples=100, batch_size=8, lanes=4, seed=3).rows, np.array([0, 60, 100])
    found = [substitute(order, 5, 2, (row, 2), attempt, first_ids) for row in (7, 90) for attempt in range(2)]
    assert [list(one) for one in found] == PINNED
    assert all((row < 60) == (first == 7) for (row, _), first in zip(found, (7, 7, 90, 90), strict=True))
