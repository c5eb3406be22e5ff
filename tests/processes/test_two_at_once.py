"""Two items on their way to one process: each is answered in its turn, and blamed for its own faults alone."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.core.cancel import StoppedError, work_for
from penstock.core.draw_keys import DrawKeys
from penstock.processes.pool import Pool
from penstock.transform.function import BatchFunction

pytestmark = pytest.mark.slow


def data(function: Any, rows: int = 60) -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(rows)}).map(function, workers="process").batch(10)


def test_the_item_behind_one_that_ends_its_process_is_not_blamed(tmp_path: Path) -> None:
    def ends_twice(batch: dict[str, Any]) -> dict[str, Any]:
        """Item 0 ends the process once; item 1 then once, item 2 once, …: none of them twice."""
        number = batch["x"][0] // 10
        note = tmp_path / str(number)
        if not note.exists():
            note.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"x": batch["x"] + 1}

    with ps.Loader(data(ends_twice), cpus=1) as loader:
        assert np.concatenate([batch["x"] for batch in loader]).tolist() == [*range(1, 61)]


def test_one_that_ends_processes_is_blamed_and_those_before_it_come() -> None:
    def crash(batch: dict[str, Any]) -> dict[str, Any]:
        if batch["x"][0] == 30:
            os._exit(5)
        return batch

    for _ in range(3):
        with ps.Loader(data(crash), cpus=1) as loader:
            steps = iter(loader)
            assert [next(steps)["x"][0] for _ in range(3)] == [0, 10, 20]
            with pytest.raises(ps.DataError, match="exit status 5 and by exit status 5") as caught:
                next(steps)
            assert "step 3" in caught.value.__notes__[-1]


def test_both_items_get_the_error_of_a_function_that_cannot_be_loaded() -> None:
    class Loads:
        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            return batch

        def __reduce__(self) -> Any:
            return os.stat, ("/nowhere",)

    with ps.Loader(data(Loads()), cpus=1) as loader, pytest.raises(ps.PlanError, match="cannot be loaded"):
        next(iter(loader))


def test_one_thread_that_is_cancelled_takes_nothing_from_the_other(tmp_path: Path) -> None:
    begun, free = tmp_path / "begun", tmp_path / "free"

    def slow(batch: dict[str, Any]) -> dict[str, Any]:
        begun.touch()
        until = time.monotonic() + 20 * int(batch["x"][0])
        while not free.exists() and time.monotonic() < until:
            time.sleep(0.01)
        return {"x": batch["x"] + os.getpid() * 0}

    pool = Pool(1)
    call = pool.function(BatchFunction(slow), "map")
    flag, found = threading.Event(), list[Any]()

    def ask(number: int, stop: threading.Event) -> None:
        work_for(stop)
        try:
            found.append(call({"x": np.full(3, number)}, DrawKeys(np.arange(3), 0))["x"].tolist())
        except StoppedError:
            found.append("stopped")

    call({"x": np.zeros(3)}, DrawKeys(np.arange(3), 0))
    threads = [
        threading.Thread(target=ask, args=(number, stop)) for number, stop in ((1, threading.Event()), (2, flag))
    ]
    begun.unlink()
    threads[0].start()
    while not begun.exists():
        time.sleep(0.01)
    threads[1].start()
    time.sleep(0.1)
    flag.set()  # it waits behind the other, in the same process
    threads[1].join()
    free.touch()
    threads[0].join()
    pool.close()
    assert found == ["stopped", [1, 1, 1]]


def test_large_messages_go_both_ways_at_once() -> None:
    """Many short buffers, which travel with the message, are more than a socket holds."""

    def same(batch: dict[str, Any]) -> dict[str, Any]:
        return batch

    columns = {f"column {number}": np.full((40, 150), number, np.int64) for number in range(100)}
    plan = ps.from_arrays(columns).map(same, workers="process").batch(10)  # 1.2 MB a batch
    with ps.Loader(plan, cpus=1) as loader:
        for batch in loader:
            assert all((batch[name] == column[:10]).all() for name, column in columns.items())
