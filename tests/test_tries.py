"""How often tests try what a long run tries, by PENSTOCK_TRIES."""

from __future__ import annotations

import pytest

from support import tries as module
from support.tries import some, tries


@pytest.mark.parametrize(
    ("thousandths", "full", "count"),
    [(10, 1_500, 15), (100, 1_500, 150), (1_000, 1_500, 1_500), (10, 30, 5), (10, 3, 3)],
)
def test_sizes_are_thousandths_of_the_full_one(
    thousandths: int, full: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TRIES", thousandths)
    assert tries(full) == count


def test_a_long_run_tries_every_place_and_a_short_one_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRIES", 1_000)
    assert some(range(7, 2_000)) == list(range(7, 2_000))
    assert len(some(range(5_000), full=1_000)) == 1_000
    monkeypatch.setattr(module, "TRIES", 100)
    found = some(range(2_000))
    assert len(found) == len(set(found)) == 200
    assert found == sorted(found)
    assert found[:50] + found[-50:] == [*range(50), *range(1_950, 2_000)]
    assert some(range(3)) == [0, 1, 2]
    assert some(range(0)) == []
