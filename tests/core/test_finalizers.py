"""A loader may be found by the garbage collector in any thread, and at any time."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.core.finalizers import let_end, when_gone
from penstock.runtime.channel import Channel

ROWS = ps.from_arrays({"x": np.arange(4000)})


class Cycle:
    """What only the garbage collector frees."""

    def __init__(self, loader: ps.Loader) -> None:
        self.itself, self.loader, self.batches = self, loader, iter(loader)


def test_threads_of_a_loader_end_where_one_of_them_finds_it_with_its_channel_locked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_dropped, collects, put = threading.Event(), threading.Event(), Channel.put

    def awaits(batch: Any) -> Any:
        assert batch["x"][0] < 1000 or is_dropped.wait(60)
        return batch

    def collected(channel: Channel[Any], number: int, item: Any) -> None:
        if is_dropped.is_set() and not collects.is_set():
            collects.set()
            with channel._lock:
                gc.collect()
        put(channel, number, item)

    before = set(threading.enumerate())
    monkeypatch.setattr(Channel, "put", collected)
    cycle = Cycle(ps.Loader(ROWS.map(awaits).batch(4), cpus=1))
    next(cycle.batches)
    rank = weakref.ref(cycle.loader._rank)
    gc.disable()
    try:
        del cycle
        is_dropped.set()
        assert collects.wait(60)
    finally:
        gc.enable()
    deadline = time.monotonic() + 60
    while left := [thread.name for thread in set(threading.enumerate()) - before]:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)
    assert rank() is None


def test_it_ends_where_it_is_let_go_of_unless_that_is_a_thread_of_ours() -> None:
    ended_in = list[str]()

    def end() -> None:
        ended_in.append(threading.current_thread().name)

    def drop(owner: list[Any]) -> None:
        del owner[:]

    for name in ("MainThread", "users", "penstock-read-0"):
        owner: list[Any] = [type("Owner", (), {})()]
        when_gone(owner[0], end)
        thread = threading.Thread(target=drop, args=(owner,), name=name)
        thread.start()
        thread.join()
    deadline = time.monotonic() + 60
    while len(ended_in) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert ended_in == ["MainThread", "users", "penstock-end"]


def test_without_a_thread_to_give_it_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    monkeypatch.setattr(threading.current_thread(), "name", "penstock-read-0")
    ended = threading.Event()
    let_end(ended.set)
    assert ended.is_set()
