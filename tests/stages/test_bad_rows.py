from __future__ import annotations

import itertools
import math
import sys

import numpy as np
import numpy.typing as npt
import pytest

import penstock as ps
from penstock.core.errors import RowError
from penstock.stages.bad_rows import make_good

ROWS = 9


def maker(bad: set[int], rows: int, calls: list[int], *, names_all: bool = False) -> object:
    def make(some: npt.NDArray[np.int64] | None) -> list[int]:
        numbers = np.arange(rows) if some is None else some
        calls.append(len(numbers))
        errors = [
            ps.DataError.of_row(f"row {number}", number, RowError(place, "bad"))
            for place, number in enumerate(numbers.tolist())
            if number in bad
        ]
        if errors:
            errors[0].more = errors[1:] if names_all else ()
            raise errors[0]
        return numbers.tolist()

    return make


@pytest.mark.parametrize("names_all", [False, True])
def test_all_bad_rows_are_found_and_no_good_one_is_lost(names_all: bool) -> None:
    for bad in itertools.chain.from_iterable(itertools.combinations(range(ROWS), count) for count in range(ROWS + 1)):
        made, found = make_good(maker({*bad}, ROWS, [], names_all=names_all), ROWS)  # type: ignore[arg-type]
        good = [row for row in range(ROWS) if row not in bad]
        assert made == (good or None)
        assert sorted(found) == [*bad]
        assert all(error.sample == row for row, error in found.items())


def test_what_bad_rows_cost() -> None:
    """Nothing where there is none, another time for one or where all are named, else a few times more."""
    rows = 1024
    for bad, most in ((0, 1), (1, 2), (16, 2 + math.log2(16) + 2), (256, 2 + math.log2(256) + 2)):
        calls: list[int] = []
        make_good(maker({*range(0, rows, rows // bad)} if bad else set(), rows, calls), rows)  # type: ignore[arg-type]
        assert sum(calls) <= most * rows
        calls = []
        make_good(maker({*range(bad)}, rows, calls, names_all=True), rows)  # type: ignore[arg-type]
        assert len(calls) <= 2


def test_an_error_that_blames_no_row_is_raised() -> None:
    def make(_: object) -> None:
        raise ps.DataError("the whole file")

    with pytest.raises(ps.DataError, match="the whole file"):
        make_good(make, ROWS)


def test_errors_hold_nothing_of_what_was_made() -> None:
    class Made:
        pass

    def make(some: npt.NDArray[np.int64] | None) -> Made:
        held.append(sys.getrefcount(made))
        here = made
        if some is None:
            raise ps.DataError.of_row("row 0", 0, RowError(0, "bad"))
        return here

    made, held = Made(), list[int]()
    _, found = make_good(make, ROWS)
    assert found[0].__traceback__ is None
    assert held[1] == held[0], "the frame of the first attempt is gone"
