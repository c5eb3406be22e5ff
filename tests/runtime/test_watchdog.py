"""The watchdog: one warning a stall, with what every stage does; silence where the consumer is slow."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.core.columns.spec import Bytes
from penstock.loader.reports import LoaderNow
from penstock.observe.report import pending_text
from penstock.runtime import watchdog as watchdog_module
from penstock.runtime.watchdog import _ItemWait
from penstock.storage.fetch.pace import Pace
from penstock.storage.fetch.plan import plan
from penstock.storage.fetch.queue import UnansweredRequest
from penstock.storage.fetch.retry import Retry
from penstock.storage.fetch.scheduler import Scheduler, pending_requests

PATIENCE_S = 0.2


class Told(logging.Handler):
    """What was logged; `told` is set by the first warning."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        self.told, self.is_awaited = threading.Event(), False

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
        self.told.set()


@pytest.fixture
def told() -> Iterator[Told]:
    handler = Told()
    logging.getLogger("penstock").addHandler(handler)
    yield handler
    logging.getLogger("penstock").removeHandler(handler)


def numbers(samples: int = 40) -> ps.Dataset:
    return ps.from_arrays({"id": np.arange(samples)})


class Stuck:
    """Waits at one row until the watchdog spoke, and for some looks more."""

    def __init__(self, told: Told, row: int) -> None:
        self.told, self.row = told, row

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        if self.row in batch["id"]:
            if not self.told.is_awaited:  # the first time: a slow machine may have stalled elsewhere before
                self.told.told.clear()
                self.told.is_awaited = True
            assert self.told.told.wait(20)
            time.sleep(2 * PATIENCE_S)
        return batch


def test_a_stall_is_told_once_with_all_that_stages_do(told: Told) -> None:
    def stands_still(batch: dict[str, Any]) -> dict[str, Any]:
        return Stuck(told, 22)(batch)

    loader = ps.Loader(numbers().batch(4).map(stands_still), watchdog=PATIENCE_S, cpus=2)
    assert [batch["id"][0] for batch in loader] == list(range(0, 40, 4))
    (text,) = [
        text for text in told.texts if "next is epoch 0, step 5)" in text
    ]  # a slow machine may stall elsewhere, too
    assert text.startswith("penstock: a batch is awaited, and no stage finished anything for 0.2 s\n")
    name = "map test_a_stall_is_told_once_with_all_that_stages_do.<locals>.stands_still"
    assert f"  {name}: works, epoch 0, step 5, for " in text
    assert f"stage {name!r}, its stack, the latest call last:" in text
    assert "assert self.told.told.wait(20)" in text
    assert "  deliver: waits for input, for " in text
    assert re.search(r"  gather: waits for room in the next queue, epoch \d, step \d+, for ", text)
    assert re.search(r"    behind it wait: epoch \d, step \d+; epoch \d", text)
    assert "samples/s" in text  # the report
    stalls = loader.stats()["stalls"]
    assert stalls == len(told.texts)
    assert f"stalls: {stalls}, of which the log" in loader.report()
    loader.close()


@pytest.mark.slow
def test_what_runs_below_a_lane_stage_is_named_with_it(told: Told) -> None:
    stuck = Stuck(told, 30)
    plan = numbers().map(stuck).filter(lambda batch: batch["id"] >= 0).batch(4, steps=10)
    with ps.Loader(plan, watchdog=PATIENCE_S) as loader:
        assert sum(len(batch["id"]) for batch in loader) == 40
    assert any("  map Stuck -> filter(" in text and ": works, piece " in text for text in told.texts)


@pytest.mark.slow
def test_nothing_is_told_while_the_consumer_is_slow(told: Told) -> None:
    assert len([*ps.Loader(numbers().batch(4), prefetch=4, watchdog=None)]) == 10  # all that it needs is imported
    with ps.Loader(numbers().batch(4), watchdog=1.0, prefetch=4) as loader:
        for number, _ in enumerate(loader):
            if number == 2:
                time.sleep(1.5)
        assert loader.stats()["stalls"] == 0
    assert not told.texts


def test_none_waits_without_looking(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog_module, "_ItemWait", None)
    slow = numbers(8).batch(4).map(lambda batch: (time.sleep(0.05), batch)[1])
    with ps.Loader(slow, watchdog=None) as loader:
        assert len(list(loader)) == 2
    assert not told.texts


def test_any_finished_item_is_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(watchdog_module.time, "monotonic", lambda: now[0])

    class Meter:
        items = 0

    class Run:
        meters = (Meter,)

    wait = _ItemWait(4.0, Run(), ())  # type: ignore[arg-type]

    def look(at_s: float, finished: int) -> bool:
        now[0], Meter.items = at_s, finished
        return wait.is_stalled()

    assert [look(at, 5) for at in (1, 2, 3, 4, 5, 6, 60)] == [False, False, False, False, True, False, False]
    assert [look(61, 6), look(64, 7), look(67, 7), look(68, 7), look(99, 7)] == [False, False, False, True, False]


@pytest.mark.slow
def test_a_report_that_fails_ends_no_training(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoaderNow, "report", lambda *_: 1 // 0)
    with ps.Loader(numbers(8).batch(4).map(Stuck(told, 4)), watchdog=PATIENCE_S) as loader:
        assert len(list(loader)) == 2
    assert told.texts[0].startswith("penstock: a batch is awaited")
    assert "ZeroDivisionError" in told.texts[0]


class Silent:
    """A store that does not answer."""

    def __init__(self) -> None:
        self.asked, self.answer = threading.Event(), threading.Event()

    def __call__(self, _shard: int, _start: int, length: int) -> bytes:
        self.asked.set()
        assert self.answer.wait(20)
        return bytes(length)

    def target(self, shard: int) -> tuple[str, str, int]:
        return f"silent/{shard}.bin", "", 100


def silent_requests() -> list[UnansweredRequest]:
    """Those of the store above; what earlier tests left may wait for another one."""
    return [one for one in pending_requests() if one.file.startswith("silent/")]


def test_requests_that_a_store_does_not_answer_are_told() -> None:
    silent, scheduler = Silent(), Scheduler(Pace(), Retry())
    out: Bytes = np.zeros(10, dtype=np.uint8)
    number, first, length, at = (np.array([value], dtype=np.int64) for value in (7, 5, 10, 0))
    requests = plan(number, first, length, at, longest_bytes=1000)
    fetching = threading.Thread(target=scheduler.fetch, args=(silent, requests, out))
    fetching.start()
    assert silent.asked.wait(20)
    pending = silent_requests()
    assert [(one.file, one.offset, one.length) for one in pending] == [("silent/7.bin", 5, 10)]
    assert pending[0].since_s > 0
    text = pending_text(pending)
    assert text.startswith(
        "requests to stores: 1 not answered, 0 wait for their turn\n  silent/7.bin, bytes 5 … 15, for "
    )
    silent.answer.set()
    fetching.join(20)
    assert silent_requests() == []
    assert pending_text([]) == ""
    scheduler.close()
