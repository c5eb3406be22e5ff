"""An error in a lane stage, or below one, comes after every step that does without the row, on any run and any ranks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps

Rows = Mapping[str, Any]
BAD, BATCH = 105, 10


def numbers() -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(200)})


def refuse(batch: Rows) -> dict[str, Any]:
    if (np.asarray(batch["x"]) == BAD).any():
        raise LookupError("the bad row")
    return dict(batch)


def refuse_row(row: Rows) -> dict[str, Any]:
    if row["x"] == BAD:
        raise LookupError("the bad row")
    return dict(row)


def all_but_bad(batch: Rows) -> Any:
    refuse(batch)
    return np.ones(len(batch["x"]), dtype=bool)


def some_but_bad(batch: Rows) -> Any:
    refuse(batch)
    return batch["x"] % 3 > 0


def others_from_bad(batch: Rows) -> dict[str, Any]:
    """Columns of another type from the bad row on."""
    return {"x": batch["x"].astype(np.int32 if batch["x"][0] >= BAD else np.int64)}


def tokens(batch: Rows) -> dict[str, Any]:
    return {"x": pa.array([[number] * 3 for number in batch["x"].tolist()], pa.list_(pa.int32()))}


#: Plans of rows 0 … 199, and which step of 10 rows on one lane cannot be made.
PLANS: dict[str, tuple[Callable[[], ps.Dataset], int]] = {
    "flat_map": (lambda: numbers().flat_map(refuse, rows=5), 10),
    "flat_map of one": (lambda: numbers().flat_map(refuse, rows=1), 10),
    "filter": (lambda: numbers().filter(all_but_bad), 10),
    "a filter that leaves some out": (lambda: numbers().filter(some_but_bad), 7),
    "map below flat_map": (lambda: numbers().map(refuse).flat_map(dict, rows=5), 10),
    "filter below flat_map": (lambda: numbers().filter(all_but_bad).flat_map(dict, rows=5), 10),
    "flat_map below two": (lambda: numbers().flat_map(refuse, rows=5).filter(lambda batch: batch["x"] % 3 > 0).flat_map(dict, rows=2), 7),
    "rows below a filter": (lambda: numbers().map_rows(refuse_row).filter(lambda batch: batch["x"] >= 0), 10),
    "joined and cut": (lambda: numbers().map(refuse).map(tokens).pack("x", length=10, strategy="concat"), 3),
    "packed": (lambda: numbers().map(refuse).map(tokens).pack("x", length=3, window=5), 10),
    "other columns": (lambda: numbers().flat_map(others_from_bad, rows=1), 10),
    "drawn": (lambda: ps.from_iterable(lambda: ({"x": row} for row in range(200)), samples=200, spool=False).filter(all_but_bad), 10),
}  # fmt: skip


#: Where several stages begin anew for each row that may be the bad one.
SLOW = ("filter below flat_map", "flat_map below two")


def steps_before_error(plan: ps.Dataset, *, lanes: int = 1, ranks: int = 1, cpus: int = 2) -> int:
    """How many steps come before an error; the fewest of all ranks."""
    return min(_steps(plan.batch(BATCH, steps=30, lanes=lanes), rank, ranks, cpus) for rank in range(ranks))


def _steps(plan: ps.Dataset, rank: int, ranks: int, cpus: int) -> int:
    steps = 0
    with (
        ps.Loader(plan, rank=rank, world_size=ranks, cpus=cpus) as loader,
        suppress(LookupError, ps.PlanError, TypeError),
    ):
        for _ in loader:
            steps += 1
    return steps


@pytest.mark.slow
@pytest.mark.parametrize("cpus", [pytest.param(1, marks=pytest.mark.long), 4])
@pytest.mark.parametrize("name", PLANS)
def test_every_step_before_the_bad_row_comes(name: str, cpus: int) -> None:
    """Exactly those that do without the row that fails are delivered, each time."""
    make, steps = PLANS[name]
    assert steps_before_error(make(), cpus=cpus) == steps


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.long), 5])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in SLOW else name for name in PLANS]
)
def test_as_many_steps_on_any_ranks(name: str, ranks: int) -> None:
    """The rank with the bad row's lane fails at the step at which one rank does."""
    make, _ = PLANS[name]
    assert steps_before_error(make(), lanes=10, ranks=ranks) == steps_before_error(make(), lanes=10)


@pytest.mark.slow
def test_an_error_that_no_single_row_has_is_not_lost() -> None:
    """A predicate that works on single rows only, as `and` between arrays does, fails at the first step."""
    plan = numbers().filter(lambda batch: [True] * len(batch["x"]) if len(batch["x"]) == 1 else [True])
    assert steps_before_error(plan) == 0
    plan = numbers().flat_map(lambda batch: dict(batch) if batch["x"][0] and batch["x"][0] < 300 else 1, rows=1)
    assert steps_before_error(plan) == 0


def test_who_leaves_once_has_left() -> None:
    """SystemExit of a function reaches the consumer, though the function is called again and does not raise it then."""
    left = [SystemExit("once")]

    def leave(batch: Rows) -> Any:
        if (batch["x"] == BAD).any() and left:
            raise left.pop()
        return batch["x"] >= 0

    with ps.Loader(numbers().filter(leave).batch(BATCH, steps=30, lanes=1)) as loader, pytest.raises(SystemExit):
        for _ in loader:
            pass


def test_an_iterator_that_comes_once_keeps_the_functions_error() -> None:
    """What cannot be drawn again is not; the error is the function's."""
    rows: Iterator[dict[str, int]] = ({"x": row} for row in range(200))
    plan = ps.from_iterable(rows, samples=200, spool=False).filter(all_but_bad).batch(BATCH, steps=30, lanes=1)
    with ps.Loader(plan) as loader, pytest.raises(LookupError):
        for _ in loader:
            pass


@pytest.mark.slow
def test_going_on_after_an_error_is_as_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader's state after an error, loaded where the function is mended, gives the steps that follow."""

    def keep(batch: Rows) -> Any:
        if "MENDED" not in os.environ:
            refuse(batch)
        return batch["x"] % 3 > 0

    def same(batch: Rows) -> Any:
        return dict(batch)

    plan = (
        numbers()
        .filter(keep)
        .flat_map(same, rows=4)
        .filter(lambda batch: batch["x"] % 7 > 0)
        .batch(BATCH, steps=20, lanes=2)
    )
    found = list[list[int]]()
    with ps.Loader(plan) as loader, suppress(LookupError):
        for batch in loader:
            found.append(batch["x"].tolist())
    state = loader.state_dict()
    monkeypatch.setenv("MENDED", "yes")
    with ps.Loader(plan) as loader:
        whole = [batch["x"].tolist() for batch in loader]
    with ps.Loader(plan) as loader:
        loader.load_state_dict(state)
        assert found + [batch["x"].tolist() for batch in loader] == whole
    assert 0 < len(found) < len(whole)
