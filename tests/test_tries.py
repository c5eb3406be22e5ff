"""How often tests try what a long run tries, by PENSTOCK_TRIES."""

from __future__ import annotations

import pytest

from support import tries as module
from support.matrix import crossed
from support.tries import few, some, tries


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


def test_a_quick_run_tries_a_few_cases_of_each_test_and_the_same_each_time() -> None:
    cases = [*(f"a.py::test_one[{number}]" for number in range(100)), "a.py::test_two", "a.py::test_three[x]"]
    found = few(cases, 4)
    assert found == few(cases, 4)
    assert len(found) == 6
    assert found > {"a.py::test_two", "a.py::test_three[x]"}
    others = few([case.replace("one", "other") for case in cases], 4)
    assert {case.replace("other", "one") for case in others} != found, "another test tries other cases"


def test_of_a_matrix_what_holds_every_value_is_not_long() -> None:
    found = crossed("abc", [1, 2])
    assert [one.values for one in found] == [(letter, number) for letter in "abc" for number in (1, 2)]
    assert {one.values for one in found if not one.marks} == {("a", 1), ("b", 2), ("c", 1)}
