"""Stages as a list: their names, and those that have no threads of their own."""

from __future__ import annotations

from typing import Any

from penstock.runtime.stage import Stage, run_together, told_apart


def named(name: str, *, is_with_one_before: bool = False) -> Stage:
    def work(given: Any) -> Any:
        return [*given, name]

    return Stage(name, "cpu", work, is_with_one_before=is_with_one_before)


def test_names_are_told_apart() -> None:
    names = ["map f", "map f", "map f 2", "map f", "map g"]
    assert [stage.name for stage in told_apart(map(named, names))] == [
        "map f",
        "map f 2",
        "map f 2 2",
        "map f 3",
        "map g",
    ]


def test_short_stages_are_done_with_the_one_before() -> None:
    select = named("select", is_with_one_before=True)
    first, last = run_together([named("read"), select, select, named("deliver")])
    assert (first.name, first.work([])) == ("read", ["read", "select", "select"])
    assert (last.name, last.work([])) == ("deliver", ["deliver"])
