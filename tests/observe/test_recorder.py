"""What is recorded of a run, beside sorted lists and beside what the pipeline is known to do."""

from __future__ import annotations

import json
import random
import threading
import time
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.loader.child.maker import _MORE
from penstock.observe.events import Event
from penstock.observe.quantiles import TimeHistogram
from penstock.observe.recorder import _LATE, RawEvent, Recorder


def event(number: int) -> RawEvent:
    return ("read", "io", 0.0, float(number), 1, 0, number, 1, 1, 1)


# Quantiles


@pytest.mark.parametrize("shape", ["even", "wide", "two", "one"])
def test_quantiles_are_at_most_a_thirtieth_from_the_truth(shape: str) -> None:
    draw = random.Random(0)
    times = {
        "even": [draw.uniform(1e-6, 1e-3) for _ in range(5000)],
        "wide": [10 ** draw.uniform(-6.5, 4) for _ in range(5000)],
        "two": [1e-5] * 900 + [0.3] * 100,
        "one": [0.25],
    }[shape]
    histogram = TimeHistogram()
    for one in times:
        histogram.add(one)
    found, wanted = histogram.times(), sorted(times)
    for share, quantile in ((0.05, found.p5_s), (0.50, found.p50_s), (0.95, found.p95_s), (0.99, found.p99_s)):
        truth = wanted[max(0, -int(-share * len(wanted) // 1) - 1)]
        assert quantile == pytest.approx(truth, rel=1 / 30)
    assert (found.count, found.most_s) == (len(times), max(times))
    assert found.mean_s == pytest.approx(sum(times) / len(times))


def test_times_out_of_all_bounds_are_counted() -> None:
    histogram = TimeHistogram()
    for seconds in (0.0, 1e-12, 1e9):
        histogram.add(seconds)
    histogram.add(0.5, 7)
    found = histogram.times()
    assert (found.count, found.most_s) == (10, 1e9)
    assert found.p50_s == pytest.approx(0.5, rel=1 / 30)


def test_zeros_are_the_shortest_times() -> None:
    """Batches of an item that was there are waited for by nobody."""
    histogram = TimeHistogram()
    histogram.add(0.0, 99)
    histogram.add(2.0)
    assert histogram.times().p95_s < 1e-6
    assert histogram.times().most_s == 2.0


def test_nothing_has_no_quantiles() -> None:
    assert TimeHistogram().times().as_dict() == {
        "count": 0,
        "mean_s": 0,
        "p5_s": 0,
        "p50_s": 0,
        "p95_s": 0,
        "p99_s": 0,
        "most_s": 0,
    }


# The ring


def test_each_event_is_told_once() -> None:
    recorder = Recorder(size=64)
    assert recorder.events_since(0) == ([], 0, 0)
    for number in range(40):
        recorder.add(event(number))
    first, cursor, lost = recorder.events_since(0)
    assert ([one.first_step for one in first], lost) == ([*range(40)], 0)
    for number in range(40, 90):
        recorder.add(event(number))
    second, cursor, lost = recorder.events_since(cursor)
    assert ([one.first_step for one in second], lost) == ([*range(40, 90)], 0)
    assert recorder.events_since(cursor) == ([], 90, 0)


def test_what_a_full_ring_lost_is_counted() -> None:
    recorder = Recorder(size=64)
    for number in range(1000):
        recorder.add(event(number))
    found, cursor, lost = recorder.events_since(0)
    assert [one.first_step for one in found] == [*range(1000 - 64, 1000)]
    assert (cursor, lost) == (1000, 1000 - 64)


def test_an_event_that_was_never_written_holds_nothing_up() -> None:
    """Ctrl-C between its number and its place."""
    recorder = Recorder(size=1024)
    recorder.add(event(0))
    next(recorder._numbers)
    recorder.add(event(2))
    assert recorder.events_since(0)[1:] == (1, 0), "it may still come"
    for number in range(3, 500):
        recorder.add(event(number))
    found, cursor, lost = recorder.events_since(1)
    assert ([one.first_step for one in found], cursor, lost) == ([*range(2, 500)], 500, 1)


def test_threads_that_tell_at_once_lose_nothing() -> None:
    recorder, each, found, lost = Recorder(size=4096), 5000, list[Event](), 0
    threads = [
        threading.Thread(target=lambda name=name: [recorder.add((name, *event(n)[1:])) for n in range(each)])  # type: ignore[misc]
        for name in "abcd"
    ]
    for thread in threads:
        thread.start()
    cursor = 0
    while any(thread.is_alive() for thread in threads) or recorder.events_since(cursor)[0]:
        some, cursor, more = recorder.events_since(cursor)
        found, lost = found + some, lost + more
    for number in range(_LATE):  # else the place of a thread that rested for a whole round might still be waited for
        recorder.add(event(number))
    some, cursor, more = recorder.events_since(cursor)
    found, lost = found + some, lost + more
    assert len(found) + lost == cursor == len(threads) * each + _LATE
    for name in "abcd":
        steps = [one.first_step for one in found if one.what == name]
        assert steps == sorted(set(steps)), "each once, and those of a thread in its order"


# A loader's events and figures


def slow(batch: dict[str, Any]) -> dict[str, Any]:
    time.sleep(0.002)
    return batch


@pytest.mark.parametrize("isolation", [None, "process"])
def test_every_item_is_told_by_every_stage_and_by_the_consumer(isolation: Any) -> None:
    dataset = ps.from_arrays({"x": np.arange(60)}).map(slow).batch(4)
    with ps.Loader(dataset, epochs=2, isolation=isolation) as loader:
        for _ in range(2):
            for _ in loader:
                time.sleep(0.0015)
        stats = loader.stats()
        events, _, lost = loader._rank.recorder.events_since(0)
    assert not lost
    names = [stage["name"] for stage in stats["stages"]]
    for name in [*names, "wait", "step"]:
        covered = [(one.epoch, one.first_step + n) for one in events if one.what == name for n in range(one.steps)]
        assert sorted(covered) == [(epoch, step) for epoch in range(2) for step in range(15)], name
    assert all(one.begin_ns <= one.end_ns for one in events)
    assert {one.kind for one in events if one.what == "map slow"} == {"python"}
    assert sum(one.samples for one in events if one.what == "step") == 120
    slept = [(one.end_ns - one.begin_ns) / one.steps for one in events if one.what == "step"]
    assert min(slept) >= 1e6, "the consumer slept a millisecond with each batch"
    assert stats.batches == 30
    assert stats.step.count in (28, 29, 30)
    assert stats.step.p50_s >= 0.001
    assert stats.steady_s >= 0.001 * stats.step.count


def test_pauses_between_passes_are_no_steps() -> None:
    began_at = time.perf_counter()
    with ps.Loader(ps.from_arrays({"x": np.arange(32)}).batch(4), epochs=3) as loader:
        for _ in range(3):
            for _ in loader:
                pass
            time.sleep(0.3)
        stats = loader.stats()
    without_pauses_s = time.perf_counter() - began_at - 3 * 0.3
    assert max(stats.step.most_s, stats.wait.most_s, stats.steady_s) < without_pauses_s


def test_figures_are_found_by_name_as_they_were() -> None:
    """Programs of before took a dict."""
    with ps.Loader(ps.from_arrays({"x": np.arange(32)}).batch(4)) as loader:
        assert loader.stats()["verdict"] == "No batch was made yet."
        for _ in loader:
            pass
        stats = loader.stats()
    assert stats["samples"] == stats.samples
    assert stats["stages"][0]["busy"] == stats.stages[0].busy
    assert {**stats}["waited"] == stats.waited == dict(stats)["waited"] == stats.get("waited")
    assert "storage" in stats
    assert stats.get("nonesuch", 7) == 7
    with pytest.raises(KeyError):
        stats["nonesuch"]
    with pytest.raises(KeyError):
        stats["get"]
    plain = stats.as_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["stages"][0]["item_s"]["count"] == stats.stages[0].item_s.count > 0


def test_a_snapshot_names_no_folder_and_no_secret(tmp_path: Any) -> None:
    folder = tmp_path / "secret-place" / "photos"
    folder.mkdir(parents=True)
    np.arange(64, dtype=np.uint16).tofile(folder / "a.bin")
    with ps.Loader(ps.read(str(folder), format="tokens", dtype="uint16", window=8).batch(4)) as loader:
        next(iter(loader))
        text = json.dumps(loader.stats().as_dict())
        assert loader.stats().loader.name == "photos"
    assert "secret-place" not in text


# What was taken


def test_a_break_counts_what_was_taken_and_nothing_that_was_made_ahead() -> None:
    """The first item holds many steps, all of which are there at once."""
    with ps.Loader(ps.from_arrays({"x": np.arange(640)}).batch(16), prefetch=4) as loader:
        for number, _ in enumerate(loader, start=1):
            now = loader.stats()
            assert (now.batches, now.samples, now.wait.count) == (number, 16 * number, number - 1)
            if number == 5:
                break
        stats = loader.stats()
        assert (stats.batches, stats.samples, stats.step.count, stats.wait.count) == (5, 80, 5, 4)
        assert sum(stage.samples for stage in stats.stages) > 80, "stages say what they made"
        for _ in loader:
            pass
        stats = loader.stats()
        assert (stats.batches, stats.samples) == (40, 640)


def test_steps_behind_the_first_item_count_as_the_time_for_them_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of the test: 10 steps of 1 s behind a first wait of 3 s, of which 9 batches came in these 10 s; then 2 of an item of 10 that took 1 s to come."""
    clock = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    recorder = Recorder(size=64)
    recorder.asks((0, 0))
    clock[0] += 3
    recorder.gets(1, 0, 0, 10, 40)
    clock[0] += 10
    now = recorder.consumer.now((0, 10))
    assert (now.taken.batches, now.taken.samples, now.taken.steady_samples, now.steady_s) == (10, 40, 36, 10)
    assert now.waited == pytest.approx(3 / 13)
    recorder.asks((0, 10))
    clock[0] += 1
    recorder.gets(1, 0, 10, 10, 40)
    clock[0] += 2
    recorder.rests((0, 12))
    clock[0] += 100
    now = recorder.consumer.now((0, 12))
    assert (now.taken.batches, now.taken.samples, now.taken.steady_samples, now.steady_s) == (12, 48, 44, 13)
    assert now.wait.count == 11
    assert now.ready == pytest.approx(10 / 11)
    assert now.waited == pytest.approx(4 / 16)
    steps = [one for one in recorder.events_since(0)[0] if one.what == "step"]
    assert [(one.first_step, one.steps, one.samples) for one in steps] == [(0, 10, 40), (10, 2, 8)]


def test_figures_of_an_isolated_loader_come_while_the_consumer_works() -> None:
    """It takes no item meanwhile, with which they would come; what the child sends besides waits, as much as it may send ahead, and no item is lost."""
    dataset = ps.from_arrays({"x": np.arange(40_000)}).batch(4)
    with ps.Loader(dataset, isolation="process", epochs=1, prefetch=4) as loader:
        batches = iter(loader)
        first = next(batches)
        deadline = time.monotonic() + 60
        while not (found := loader._rank.observing.snapshot()).stages:
            assert time.monotonic() < deadline, "the figures never came"
        for _ in range(20):
            loader._rank.observing.snapshot()
        child = getattr(loader._rank.items, "_child")  # noqa: B009  # of one kind of source
        assert len(child._items) <= _MORE
        assert (found.samples, found.batches) == (4, 1)
        assert found.waited < 1
        rows = np.concatenate([batch["x"] for batch in [first, *batches]])
    assert rows.tolist() == [*range(40_000)]
    assert loader.stats().samples == 40_000
