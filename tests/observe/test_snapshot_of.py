"""Snapshots of plain values: what was written comes back, and what anybody else writes is a snapshot or a DataError."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.core.errors import DataError
from penstock.observe.snapshot import Snapshot
from penstock.observe.snapshot_of import snapshot_of
from support.runs import a_run

WHOLE = next(a_run(1))


def values() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(WHOLE.as_dict()))
    return found


def test_what_was_written_comes_back() -> None:
    assert snapshot_of(values()) == WHOLE
    assert snapshot_of(Snapshot().as_dict()) == Snapshot()


def test_another_version_of_it() -> None:
    assert snapshot_of({}) == Snapshot()
    assert snapshot_of({**values(), "later": {"a": 1}}) == WHOLE
    assert snapshot_of({"samples_per_s": None, "storage": None, "samples": 3}) == Snapshot(samples=3)


def places(found: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield way
    for name in found if isinstance(found, dict) else range(len(found)) if isinstance(found, list) else ():
        yield from places(found[name], (*way, name))


def put(found: Any, way: tuple[Any, ...], value: Any) -> Any:
    if not way:
        return value
    for name in way[:-1]:
        found = found[name]
    found[way[-1]] = value
    return None


@pytest.mark.parametrize(
    "wrong", ["text", -1, True, [], {}, [1], {"a": []}, None, float("nan"), 10**400, "\x1b[2J" * 9999]
)
def test_no_other_error_than_one_that_says_where(wrong: Any) -> None:
    """In any place. Groups whose names are not fixed take any values: who shows them does not trust them."""
    refused = 0
    for way in places(values()):
        changed = values()
        changed = put(changed, way, wrong) or changed if way else wrong
        said = refusal(changed)
        refused += said != ""
        assert said == "" or not way or str(way[0]) in said
    assert refused or wrong in (-1, None)


def refusal(found: Any) -> str:
    try:
        snapshot_of(found)
    except DataError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("field", ["loader", "stages", "samples", "verdict", "memory", "cache"])
def test_where_it_is_wrong(field: str) -> None:
    with pytest.raises(DataError, match=field):
        snapshot_of({**values(), field: 3 if field != "samples" else "3"})


def test_a_figure_that_must_be_there() -> None:
    found = values()
    del found["stages"][1]["threads"]
    with pytest.raises(DataError, match=r"stages\[1\].threads is missing"):
        snapshot_of(found)
