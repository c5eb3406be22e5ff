"""Days of running: what a loader keeps of them does not grow."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.observe.exporters.readings import Readings
from penstock.observe.figure_groups import TuningFigures
from penstock.observe.history import MOST_POINTS, History
from penstock.observe.recorder import RING, Recorder
from support.runs import DECISIONS, a_run

pytestmark = pytest.mark.long

#: Items of a loop, and snapshots: two days of them.
ITEMS, SNAPSHOTS = 1_000_000, 400_000


def growth(work: Callable[[int], None], few: int, many: int) -> int:
    """Objects that are held after many more turns than few, about."""
    for number in range(few):
        work(number)
    gc.collect()
    before = sys.getallocatedblocks()
    for number in range(few, many):
        work(number)
    gc.collect()
    return sys.getallocatedblocks() - before


def test_a_ring_that_is_full_holds_no_more() -> None:
    recorder, lost, cursor = Recorder(), 0, 0
    recorder.begin_run()

    def item(number: int) -> None:
        nonlocal lost, cursor
        recorder.add(("read", "io", number / 10, number / 10 + 0.01, 7, 0, number, 1, 4, 100))
        recorder.asks((0, number))
        recorder.gets(7, 0, number, 1, 4)
        if number % 50_000 == 0:  # an exporter that looks seldom
            found, cursor, more = recorder.events_since(cursor)
            lost += more
            assert len(found) <= RING

    assert growth(item, 20_000, ITEMS) < 5_000
    assert recorder.consumer.step.count == ITEMS - 1
    *_, more = recorder.events_since(cursor)
    assert lost + more > 0, "what nobody took is counted"


def test_a_history_that_is_full_holds_no_more() -> None:
    history, readings = History(), Readings()
    (snapshot,) = a_run(1)

    def half_a_second(number: int) -> None:
        told = replace(
            snapshot,
            samples=500 * number,
            batches=10 * number,
            elapsed_s=0.5 * number,
            at=1.79e9 + 0.5 * number,
            tuning=TuningFigures(changes=number, decisions=(replace(DECISIONS[0], at_s=0.5 * number),)),
        )
        history.add(told)
        if number % 10 == 0:
            readings.read(told)

    assert growth(half_a_second, 2_000, SNAPSHOTS) < 30_000
    assert len(history.points) <= MOST_POINTS
    assert history.samples == 500 * (SNAPSHOTS - 1)
    assert history.decisions_left_out > 0
