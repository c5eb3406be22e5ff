"""Histories of runs: bounded, whatever they are told, and nothing is lost in them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.observe.figure_groups import TuningFigures
from penstock.observe.history import MOST_POINTS, History, histories_of
from penstock.observe.snapshot import Identity, Snapshot
from support.runs import DECISIONS, a_run


def history(*snapshots: Snapshot) -> History:
    found = History()
    for one in snapshots:
        found.add(one)
    return found


@pytest.mark.parametrize("count", [1, 2, 119, 120, 240, 241, 1000, 20_000])
def test_all_samples_are_in_a_few_points(count: int) -> None:
    found = history(*a_run(count))
    points = found.all_points()
    assert len(points) <= MOST_POINTS
    assert sum(point.samples for point in points) == found.samples == found.now.samples
    assert sum(point.seconds for point in points) == pytest.approx(0.5 * count)
    assert sum(point.waited_s for point in points) == pytest.approx(0.125 * 0.5 * count)
    assert points[-1].end_s == pytest.approx(0.5 * count)
    assert [point.end_s for point in points] == sorted(point.end_s for point in points)
    assert all(point.gauge("sm") == pytest.approx(0.54) for point in points)
    assert all(point.rate(point.samples) == pytest.approx(1000) for point in points)


def test_a_decision_is_told_once() -> None:
    found = history(*a_run(60))
    assert [(one["at_s"], one["knob"], one["from"], one["to"]) for one in found.decisions] == [
        (2.0, "kernels", "2", "4"),
        (9.5, "read", "2", "4"),
    ]


def test_decisions_without_end_are_counted() -> None:
    told = [replace(DECISIONS[0], at_s=float(number)) for number in range(1000)]
    run = [
        replace(one, tuning=TuningFigures(decisions=tuple(told[place : place + 32])))
        for place, one in enumerate(a_run(960))
    ]
    found = history(*run)
    assert len(found.decisions) == 64
    assert found.decisions_left_out + 64 == 991
    assert found.decisions[0]["at_s"] == 0.0
    assert found.decisions[-1]["at_s"] == 990.0


def test_a_pipeline_that_is_started_anew_goes_on_behind_the_one_before() -> None:
    found = history(*a_run(10), *a_run(4))
    assert (found.restarts, found.samples, found.seconds) == (1, 5000 + 2000, 7.0)
    assert [point.end_s for point in found.points] == sorted(point.end_s for point in found.points)


def test_the_same_snapshot_again_is_no_time() -> None:
    run = [*a_run(5)]
    assert len(history(*run, run[-1], replace(run[-1], at=run[-1].at + 50)).points) == 5


@pytest.mark.parametrize(("jump_s", "says"), [(3600.0, "3,600 s ahead"), (-86_400.0, "86,400 s behind")])
def test_a_clock_that_jumps_is_said_and_changes_no_time(jump_s: float, says: str) -> None:
    run = [replace(one, at=one.at + (jump_s if place >= 20 else 0)) for place, one in enumerate(a_run(40))]
    found = history(*run)
    assert len(found.notes) == 1
    assert says in found.notes[0]
    assert [point.end_s for point in found.points] == [point.end_s for point in history(*a_run(40)).points]


def test_clocks_that_jump_all_the_time_are_not_said_all_the_time() -> None:
    assert len(history(*(replace(one, at=one.at + 100 * place) for place, one in enumerate(a_run(500)))).notes) == 8


def test_loaders_of_a_file_are_told_apart() -> None:
    """By process, number and when they were made: a number of a process comes again."""
    one, other = [*a_run(10)], [*a_run(30, name="validation")]
    again = [replace(each, loader=Identity(**{**each.loader.as_dict(), "started_at": 1.8e9})) for each in a_run(5)]
    other = [replace(each, loader=Identity(**{**each.loader.as_dict(), "number": 2})) for each in other]
    mixed = [each for both in zip(one, other[:10], strict=True) for each in both] + other[10:] + again
    assert [found.samples for found in histories_of(mixed)] == [15_000, 5_000, 2_500]


def test_loaders_of_a_thousand_ranks_have_few_points_each() -> None:
    run = [replace(one, loader=replace(one.loader, pid=pid)) for one in a_run(30) for pid in range(1000)]
    found = histories_of(run)
    assert len(found) == 1000
    assert sum(len(one.all_points()) for one in found) < 16 * 30 + 984 * 25
    assert {one.samples for one in found} == {15_000}


def test_a_copy_with_the_figures_now_leaves_the_history_as_it_is() -> None:
    *run, last = a_run(400)
    found = history(*run)
    before = [(point.end_s, point.samples) for point in found.all_points()]
    copy = found.with_now(last)
    assert (copy.samples, copy.now.samples) == (200_000, 200_000)
    assert [(point.end_s, point.samples) for point in found.all_points()] == before
    assert found.now == run[-1]
