"""Many requests at once: shared among connections, joined where they wait, each answer where it belongs."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.cancel import StoppedError, work_for
from penstock.core.errors import DataError
from penstock.core.files.shards import Shards
from penstock.storage.fetch.pace import FEWEST, Pace
from penstock.storage.fetch.plan import LONGEST_BYTES, SHARED_BYTES, plan, shared_bytes
from penstock.storage.fetch.queue import Request, RequestQueue
from penstock.storage.fetch.remote import RemoteStorage
from penstock.storage.fetch.retry import Retry, TransientError
from penstock.storage.fetch.scheduler import Scheduler
from penstock.storage.fetch.transfer import FetchCall

DATA = np.random.default_rng(0).integers(0, 256, 24 << 20, dtype=np.uint8)


def ids(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


class Get:
    """Answers from memory, when it is allowed to; notes what it was asked for."""

    def __init__(self, *, held: bool = False) -> None:
        self.asked: list[tuple[int, int]] = []
        self.go_on = threading.Event()
        self.begun = threading.Event()
        self.errors: dict[tuple[int, int], Exception] = {}
        if not held:
            self.go_on.set()

    def __call__(self, shard: int, offset: int, length: int) -> Any:
        self.asked.append((offset, length))
        self.begun.set()
        assert self.go_on.wait(60)
        for (begin, end), error in self.errors.items():
            if offset < end and begin < offset + length:
                raise error
        return DATA[offset : offset + length].tobytes()


class Caller:
    """A call that needs all its requests but some."""

    def __init__(self, *unwanted: int) -> None:
        self.unwanted = unwanted

    def wants(self, number: int) -> bool:
        return number not in self.unwanted


def waiting(*places: tuple[int, int], of: Any = None, unwanted: tuple[int, ...] = ()) -> list[Request]:
    call: Any = Caller(*unwanted)
    return [Request(call, number, of, 0, *place) for number, place in enumerate(places)]


def taken(queue: RequestQueue, most: int = 9, longest_bytes: int = 100) -> list[int]:
    return [one.offset for one in queue.take(most, longest_bytes)]


def test_what_follows_leaves_with_the_first_and_the_rest_in_turn() -> None:
    queue = RequestQueue()
    queue.add(waiting((50, 10), (0, 10), (60, 10), (10, 5), (70, 10)))
    assert taken(queue) == [50, 60, 70]
    assert len(queue) == 2
    assert taken(queue) == [0, 10]
    assert len(queue) == 0


def test_no_more_leave_than_may_and_none_that_belong_to_others() -> None:
    queue = RequestQueue()
    queue.add(waiting((0, 10), (10, 10), (20, 10), (30, 10)))
    assert taken(queue, most=2) == [0, 10]
    assert taken(queue, longest_bytes=19) == [20]
    assert taken(queue) == [30]
    queue.add(waiting((0, 10)))
    queue.add(waiting((10, 10), of="other files"))
    assert [taken(queue) for _ in range(2)] == [[0], [10]]


def test_cancelled_requests_leave_the_queue_unmade_and_end_what_is_merged() -> None:
    queue = RequestQueue()
    queue.add(waiting((90, 10), (0, 10), (10, 10), (20, 10), (30, 10), unwanted=(0, 3)))
    assert [taken(queue) for _ in range(2)] == [[0, 10], [30]]
    assert len(queue) == 0
    queue.add(waiting((0, 10), (10, 10), unwanted=(0, 1)))
    assert taken(queue) == []
    assert len(queue) == 0


def test_a_queue_without_requests_holds_no_memory() -> None:
    queue, out = RequestQueue(), np.empty(10, dtype=np.uint8)
    call = FetchCall(Get(), plan(ids(0, 0), ids(0, 500_000), ids(5, 5), ids(0, 5)), out)
    queue.add(call.requests())
    queue.take(1, 0)
    queue.take(1, 0)
    gone = weakref.ref(call)
    gc.disable()
    try:
        del call
        assert gone() is None
    finally:
        gc.enable()


def read(scheduler: Scheduler, get: Get, offset: int, length: int) -> np.ndarray:
    out = np.zeros(length, dtype=np.uint8)
    scheduler.fetch(get, plan(ids(0), ids(offset), ids(length), ids(0)), out)
    return out


def in_turn(scheduler: Scheduler, get: Get, threads: ThreadPoolExecutor, offsets: range, length: int) -> list[Any]:
    """Reads that wait behind one that is under way, until `get` may go on."""
    first = threads.submit(read, scheduler, get, 20 << 20, length)
    assert get.begun.wait(60)
    found = [first]
    for offset in offsets:
        found.append(threads.submit(read, scheduler, get, offset, length))
        while len(scheduler._waiting) < len(found) - 1:
            time.sleep(0.001)
    get.go_on.set()
    return found


def test_calls_for_neighbours_that_wait_are_made_as_one_request() -> None:
    scheduler, get, size = Scheduler(Pace(1, 1, 1), Retry()), Get(held=True), 1 << 20
    with ThreadPoolExecutor(9) as threads:
        found = in_turn(scheduler, get, threads, range(0, 8 * size, size), size)
        for offset, one in zip([20 << 20, *range(0, 8 * size, size)], found, strict=True):
            assert (one.result() == DATA[offset : offset + size]).all()
    assert sum(length for _, length in get.asked) == 9 * size
    assert len(get.asked) == 2
    assert scheduler.pace.traffic.requests == len(get.asked)


@pytest.mark.parametrize("passing", [True, False])
def test_neighbours_that_fail_together_are_made_again_alone(passing: bool) -> None:
    scheduler, get, size = Scheduler(Pace(1, 1, 1), Retry(deadline_s=0.0)), Get(held=True), 1 << 20
    error = TransientError("reset") if passing else DataError("another object")
    get.errors[2 * size, 2 * size + 1] = error
    with ThreadPoolExecutor(9) as threads:
        found = in_turn(scheduler, get, threads, range(0, 4 * size, size), size)
        errors = [one.exception() for one in found]
    assert [number for number, met in enumerate(errors) if met is not None] == [3]
    assert errors[3] is error
    for place, number in ((0, 1), (size, 2), (3 * size, 4)):
        assert (found[number].result() == DATA[place : place + size]).all()


def test_nothing_more_is_asked_for_once_nobody_wants_it() -> None:
    scheduler, get, size, flag = Scheduler(Pace(1, 1, 1), Retry()), Get(held=True), 1 << 10, threading.Event()
    with ThreadPoolExecutor(9, initializer=work_for, initargs=(flag,)) as threads:
        begun = threads.submit(read, scheduler, get, 0, size)
        assert get.begun.wait(60)
        waits = [threads.submit(read, scheduler, get, 3 * number * size, size) for number in range(1, 9)]
        while len(scheduler._waiting) < len(waits):
            time.sleep(0.001)
        flag.set()
        get.go_on.set()
        assert all(isinstance(one.exception(), StoppedError) for one in [begun, *waits])
    assert len(get.asked) == 1


class Memory:
    """A store of one file."""

    root = "mem://"

    def __init__(self) -> None:
        self.get_bytes = Get()

    def list(self, where: str) -> Shards:
        return Shards(pa.array([where], pa.large_string()), ids(len(DATA)), ids(1))

    def get(self, path: str, etag: str, size: int, start: int, length: int) -> Any:
        return self.get_bytes(0, start, length)


def test_a_long_range_is_shared_by_connections_that_have_nothing_else_to_do() -> None:
    store = Memory()
    storage = RemoteStorage(store)
    shards, out = storage.list("a"), np.empty(len(DATA), dtype=np.uint8)
    storage.read(shards, ids(0), ids(0), ids(len(DATA)), out, ids(0))
    assert (out == DATA).all()
    assert len(store.get_bytes.asked) == len(DATA) // SHARED_BYTES


def test_equal_shares_are_neither_short_nor_long() -> None:
    assert shared_bytes(96 << 20, 32, LONGEST_BYTES) == 3 << 20
    assert shared_bytes(100, 32, LONGEST_BYTES) == SHARED_BYTES
    assert shared_bytes(1 << 40, 32, LONGEST_BYTES) == LONGEST_BYTES


def test_requests_are_short_where_connections_are_slow() -> None:
    pace = Pace()
    assert pace.longest_bytes == LONGEST_BYTES
    for _ in range(100):
        pace.answered(2.0, 1 << 20, busy=True)
    assert pace.longest_bytes == SHARED_BYTES
    for _ in range(200):
        pace.answered(0.07, 1 << 20, busy=True)
    assert pace.longest_bytes == LONGEST_BYTES


def test_a_store_is_heard_when_it_asks_for_less_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("penstock.storage.fetch.pace.time.monotonic", lambda: clock[0])
    pace = Pace(first=64, most=64)

    def seconds(count: int, every: int) -> int:
        for _ in range(count):
            clock[0] += 1.1
            for number in range(200):
                if number % every:
                    pace.answered(0.05, 1 << 20, busy=False)
                else:
                    pace.failed(slow_down=True)
        return pace.in_flight

    assert seconds(5, every=40) == 64, "some always do"
    assert seconds(2, every=4) < 64
    assert seconds(20, every=4) == FEWEST
