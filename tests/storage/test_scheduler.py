"""One queue, whoever makes the requests: who retries, what has room, and that nothing hangs."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from penstock.core.cancel import StoppedError, work_for
from penstock.core.errors import DataError
from penstock.storage.fetch import scheduler as scheduler_module
from penstock.storage.fetch import threads as threads_module
from penstock.storage.fetch.pace import Pace
from penstock.storage.fetch.plan import plan
from penstock.storage.fetch.retry import MOST_WRONG, MOST_WRONG_IN_TURN, Retry, TransientError, WrongAnswerError
from penstock.storage.fetch.scheduler import Scheduler
from penstock.storage.fetch.threads import Threads
from penstock.storage.fetch.transport import Job
from servers.s3 import Server, served

DATA = np.random.default_rng(0).integers(0, 256, 1 << 20, dtype=np.uint8)
QUICK = Retry(first_s=0.001, deadline_s=5.0)


class Get:
    """Responses from memory; the first requests meet errors."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.made: list[tuple[int, int]] = []

    def __call__(self, shard: int, start: int, length: int) -> Any:
        self.made.append((start, length))
        if self.errors:
            raise self.errors.pop(0)
        return DATA[start : start + length].tobytes()

    def target(self, shard: int) -> tuple[str, str, int]:
        return "a", "", len(DATA)


class Direct:
    """A transport that makes no request, but ends each job in one way."""

    spare_share = 0.0

    def __init__(self, scheduler: Scheduler, end: Callable[[Direct, Job], None]) -> None:
        self.in_flight, self.scheduler, self.end = 0, scheduler, end
        self.taken: list[list[int]] = []
        self.is_closed = False

    def wake(self) -> None:
        while job := self.scheduler.take(self):
            self.taken.append([one.offset for one in job])
            for one in job:
                one.call.begin(one.number, one.length)
            self.end(self, job)

    def close(self) -> None:
        self.is_closed = True


def succeed(self: Direct, job: Job) -> None:
    self.scheduler.answered(job, 0.01, busy=False)
    for one in job:
        one.call.put(one.number, DATA[one.offset : one.end])
    self.scheduler.ended(self)


def fail(error: Exception | None) -> Callable[[Direct, Job], None]:
    def end(self: Direct, job: Job) -> None:
        self.scheduler.failed(self, job, error, 0.01)
        self.scheduler.ended(self)

    return end


def hang(self: Direct, job: Job) -> None:
    """Never end it."""


def read(scheduler: Scheduler, get: Get, *offsets: int, length: int = 10) -> bool:
    offset = np.array(offsets, dtype=np.int64)
    zero, lengths, at = np.zeros_like(offset), np.full_like(offset, length), np.arange(len(offset)) * length
    out = np.zeros(length * len(offset), dtype=np.uint8)
    scheduler.fetch(get, plan(zero, offset, lengths, at, gap_bytes=-1), out)
    return out.tobytes() == b"".join(DATA[first : first + length].tobytes() for first in offsets)


@pytest.fixture
def opened() -> Iterator[Callable[..., Scheduler]]:
    made: list[Scheduler] = []

    def open_scheduler(
        end: Callable[[Direct, Job], None] | None = None, most: int = 4, retry: Retry = QUICK
    ) -> Scheduler:
        made.append(Scheduler(Pace(1, most, most), retry, None if end is None else lambda found: Direct(found, end)))
        return made[-1]

    yield open_scheduler
    for scheduler in made:
        scheduler.close()


def test_first_tries_are_made_by_the_first_transport_alone(opened: Callable[..., Scheduler]) -> None:
    scheduler, get = opened(succeed), Get()
    assert read(scheduler, get, 0, 100, 200)
    assert get.made == []
    assert scheduler.pace.traffic.requests == 3


@pytest.mark.parametrize("error", [None, TransientError("reset")])
def test_what_it_cannot_make_is_made_by_threads_one_by_one(
    opened: Callable[..., Scheduler], error: Exception | None
) -> None:
    scheduler, get = opened(fail(error), most=1), Get()
    assert read(scheduler, get, 0, 10, 20)
    assert scheduler._first.taken == [[0, 10, 20]]  # type: ignore[attr-defined]
    assert sorted(get.made) == [(0, 10), (10, 10), (20, 10)]
    assert scheduler.pace.traffic.retries == (error is not None)


def test_the_store_has_the_last_word_even_after_the_deadline(opened: Callable[..., Scheduler]) -> None:
    """The first transport's errors are not final: the store's own client reports what is wrong."""
    scheduler = opened(fail(TransientError("reset")), retry=Retry(deadline_s=0.0))
    with pytest.raises(DataError, match="another object"):
        read(scheduler, Get(DataError("another object")), 0)


def test_late_requests_are_hedged_even_if_all_that_may_be_in_flight_hang(opened: Callable[..., Scheduler]) -> None:
    scheduler, get = opened(hang, most=2), Get()
    scheduler.pace.traffic.requests = 1000
    scheduler.pace.late_after_s = lambda _: 0.0  # type: ignore[method-assign]
    assert read(scheduler, get, 0, 100)
    assert sorted(get.made) == [(0, 10), (100, 10)]
    assert scheduler.pace.traffic.hedges == 2


def test_transient_errors_are_retried_until_the_deadline(opened: Callable[..., Scheduler]) -> None:
    get = Get(*[TransientError("reset")] * 5)
    assert read(opened(), get, 0)
    assert get.made == [(0, 10)] * 6
    began_at = time.monotonic()
    with pytest.raises(TransientError, match="reset"):
        read(opened(retry=Retry(first_s=0.01, deadline_s=0.2)), Get(*[TransientError("reset")] * 10_000), 0)
    assert time.monotonic() - began_at < 60


def test_wrong_responses_end_a_request_and_in_a_row_the_store(opened: Callable[..., Scheduler]) -> None:
    get = Get(*[WrongAnswerError("a page")] * 100)
    with pytest.raises(WrongAnswerError):
        read(opened(), get, 0)
    assert len(get.made) == MOST_WRONG
    scheduler, get = opened(most=64, retry=QUICK), Get(*[WrongAnswerError("a page")] * 1000)
    with pytest.raises(WrongAnswerError):
        read(scheduler, get, *range(0, 10_000, 100))
    assert len(get.made) <= 64 + MOST_WRONG_IN_TURN
    assert read(scheduler, Get(), 0), "a good response ends the row"
    assert scheduler._wrong_in_turn == 0


def test_no_more_are_in_flight_than_may(opened: Callable[..., Scheduler]) -> None:
    most, lock = [0, 0], threading.Lock()

    class Counting(Get):
        def __call__(self, shard: int, start: int, length: int) -> Any:
            with lock:
                most[0] += 1
                most[1] = max(most)
            time.sleep(0.01)
            with lock:
                most[0] -= 1
            return super().__call__(shard, start, length)

    assert read(opened(most=3), Counting(), *range(0, 4000, 100))
    assert most[1] == 3


def fetch_threads() -> int:
    return sum(thread.name == "penstock-fetch" for thread in threading.enumerate())


def test_idle_threads_end_and_new_ones_start(opened: Callable[..., Scheduler], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "_IDLE_S", 0.05)
    scheduler = opened()
    for _ in range(3):
        before = fetch_threads()
        assert read(scheduler, Get(), *range(0, 1000, 100))
        until = time.monotonic() + 60.0
        while scheduler._threads._started or fetch_threads() > before:
            assert time.monotonic() < until
            time.sleep(0.01)


def test_without_threads_a_call_fails_and_does_not_hang(
    opened: Callable[..., Scheduler], monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    for end in (None, fail(None)):
        scheduler = opened(end)
        with pytest.raises(RuntimeError, match="can't start"):
            read(scheduler, Get(), 0)
        assert scheduler._threads._started == 0


def test_a_closed_scheduler_drops_what_waits_and_makes_nothing(opened: Callable[..., Scheduler]) -> None:
    scheduler, get = opened(hang, most=1), Get()
    flag = threading.Event()

    def read_until_stopped() -> None:
        work_for(flag)
        with contextlib.suppress(StoppedError):
            read(scheduler, get, 0, 100)

    reading = threading.Thread(target=read_until_stopped)
    reading.start()
    while not scheduler._waiting:
        time.sleep(0.001)
    scheduler.close()
    flag.set()
    reading.join()
    assert not scheduler._waiting
    assert scheduler._first.is_closed  # type: ignore[attr-defined]
    with pytest.raises(StoppedError):
        read(scheduler, get, 0)
    assert get.made == []
    scheduler_module._close_all()


def test_a_child_begins_anew_whatever_its_parent_held(opened: Callable[..., Scheduler]) -> None:
    scheduler, get = opened(), Get()
    with scheduler._lock:
        scheduler.forked()
    assert read(scheduler, get, 0)
    assert isinstance(scheduler._first, Threads)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served({"a.bin": DATA.tobytes()}) as found:
        yield found


READ = """
import numpy as np
from penstock.storage import open_storage
from penstock.storage.fetch import remote

storage, where = open_storage("s3://data/a.bin")
at = np.arange(100)
out, shards = np.zeros(100 * 7, dtype=np.uint8), storage.list(where)
storage.remote.read(shards, np.zeros(100, dtype=np.int64), at * 1000, np.full(100, 7), out, at * 7)
print(len(remote.CLIENTS), out.tobytes().hex())
"""


@pytest.mark.slow
@pytest.mark.parametrize("clients", [1, 0])
def test_the_native_client_can_be_deleted(
    server: Server, tmp_path: Path, clients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder, its import and its line in the table; all is then read by threads."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}")
    package, copy = Path(penstock.__file__).parent, tmp_path / "penstock"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__"))
    for library in [*package.glob("*.so"), *package.glob("*.pyd")]:
        (copy / library.name).symlink_to(library)
    if not clients:
        shutil.rmtree(copy / "storage" / "fetch" / "native")
        table = copy / "storage" / "fetch" / "remote.py"
        lines = table.read_text().splitlines(keepends=True)
        table.write_text("".join(line for line in lines if "open_client" not in line))
    done = subprocess.run(
        [sys.executable, "-c", READ],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    assert done.stderr == ""
    found, data = done.stdout.split()
    assert int(found) == clients
    assert bytes.fromhex(data) == b"".join(DATA[first : first + 7].tobytes() for first in range(0, 100_000, 1000))
