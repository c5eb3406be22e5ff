"""How hard the tests try: `PENSTOCK_TRIES`, in thousandths of the full size.

It scales random examples, flipped bits, cuts and rounds of stress: 25 if nothing is set, 10 in `make quick`, 1000 in `make test-long`, which alone draws
other examples each time.
Of a test with many cases, `make quick` runs one.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable

TRIES = int(os.environ.get("PENSTOCK_TRIES", "25"))
#: How many cases of a test run at most, or None for all.
CASES = 1 if TRIES <= 10 else None


def tries(full: int, *, at_least: int = 5) -> int:
    """How often to try what a long run tries `full` times; by default tries(2_000) == 50 and tries(30) == 5."""
    return max(min(full, at_least), full * TRIES // 1_000)


def some(places: range, *, full: int | None = None, at_least: int = 40) -> list[int]:
    """The places to try of those of which a long run tries all, or `full`: a quarter at each end, the rest from between."""
    count = tries(min(full or len(places), len(places)), at_least=at_least)
    if count >= len(places):
        return list(places)
    end = count // 4
    between = random.Random(1).sample(places[end : len(places) - end], count - 2 * end)
    return [*places[:end], *sorted(between), *places[len(places) - end :]]


def few(cases: Iterable[str], limit: int) -> set[str]:
    """Of pytest's node ids, so many of each test; which ones differs from test to test, so that a matrix that many share is tried all over."""
    tests: dict[str, list[str]] = {}
    for case in cases:
        tests.setdefault(case.split("[")[0], []).append(case)
    return {case for name, found in tests.items() for case in random.Random(name).sample(found, min(limit, len(found)))}
