"""Functions that are awaited: many at once, in order, cancelled with their run; never a coroutine in a batch."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.core.functions import event_loop
from support.seams import is_awaited

ROWS = 60


def data() -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(ROWS)}).shuffle(seed=3)


def plain(plan: ps.Dataset, **options: Any) -> list[dict[str, list[Any]]]:
    with ps.Loader(plan, **options) as loader:
        return [{name: column.tolist() for name, column in batch.items()} for batch in loader]


async def doubled(batch: dict[str, Any]) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"x": batch["x"] * 2}


class Doubles:
    async def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return await doubled(batch)

    async def method(self, batch: dict[str, Any]) -> dict[str, Any]:
        return await doubled(batch)


@pytest.mark.parametrize(
    "function",
    [
        doubled,
        Doubles(),
        Doubles().method,
        functools.partial(doubled),
        lambda batch: doubled(batch),  # noqa: PLW0108  # nothing about it says that it is to be awaited
    ],
)
@pytest.mark.parametrize("verb", ["map", "map_rows"])
def test_all_kinds_give_what_others_give(verb: str, function: Any) -> None:
    wanted = plain(getattr(data(), verb)(lambda batch: {"x": batch["x"] * 2}).batch(8))
    assert plain(getattr(data(), verb)(function).batch(8)) == wanted


def test_lane_stages() -> None:
    async def odd(batch: dict[str, Any]) -> Any:
        await asyncio.sleep(0)
        return batch["x"] % 2 == 1

    async def twice(batch: dict[str, Any]) -> Any:
        await asyncio.sleep(0.001 * int(batch["x"][0] % 3))
        return {"x": np.repeat(batch["x"], 2)}

    here = (
        data().filter(lambda batch: batch["x"] % 2 == 1).flat_map(lambda batch: {"x": np.repeat(batch["x"], 2)}, rows=3)
    )
    there = data().filter(odd).flat_map(twice, rows=3)
    assert plain(there.batch(8, steps=6)) == plain(here.batch(8, steps=6))


def test_rows_are_awaited_together_and_come_in_order() -> None:
    most, now = 0, 0

    async def waits(row: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.02 * float(rng.random()))
        now -= 1
        return {"x": row["x"], "drawn": rng.random()}

    def draws(row: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        rng.random()
        return {"x": row["x"], "drawn": rng.random()}

    assert plain(data().map_rows(waits).batch(20)) == plain(data().map_rows(draws).batch(20))
    assert 8 < most <= 64


def test_batches_are_awaited_together() -> None:
    most, now = 0, 0

    async def waits(batch: dict[str, Any]) -> dict[str, Any]:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.1)
        now -= 1
        return batch

    assert len(plain(data().map(waits).batch(4), cpus=1)) == 15
    assert 4 < most <= 16


def test_errors_are_those_of_the_first_bad_row() -> None:
    async def refuses(row: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0.001 * (7 - int(row["x"] % 7)))  # later rows fail sooner
        if row["x"] % 30 == 3:
            raise ps.DataError(f"{row['x']} is no number")
        return row

    async def leaves(row: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        if row["x"] >= 5:
            raise SystemExit(int(row["x"]))
        return row

    some = ps.from_arrays({"x": np.arange(ROWS)})
    with pytest.raises(ps.DataError, match="3 is no number") as caught:
        plain(some.map_rows(refuses).batch(30))
    assert caught.value.row == 3
    assert "epoch 0, step 0" in caught.value.__notes__[-1]
    for _ in range(2):  # the loop goes on
        with pytest.raises(SystemExit) as left:
            plain(some.map_rows(leaves).batch(30))
        assert left.value.code == 5
    with pytest.warns(UserWarning, match="is no number"):
        found = plain(data().map_rows(refuses).batch(10), on_error="skip")
    assert sorted(number for batch in found for number in batch["x"])[:4] == [0, 1, 2, 4]


def test_global_generators_give_the_same_numbers() -> None:
    async def draws(row: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"x": row["x"], "drawn": np.random.rand()}

    def drawn(row: dict[str, Any]) -> dict[str, Any]:
        return {"x": row["x"], "drawn": np.random.rand()}

    with pytest.warns(UserWarning, match="global generators"):
        assert plain(data().map_rows(draws).batch(20)) == plain(data().map_rows(drawn).batch(20))


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_is_no_result_is_an_error() -> None:
    async def nothing(batch: dict[str, Any]) -> None:
        await asyncio.sleep(0)

    async def generator(batch: dict[str, Any]) -> Any:
        yield batch

    async def column(batch: dict[str, Any]) -> Any:
        return {"x": doubled(batch)}

    for verb, function, said in (
        ("map", nothing, "returned NoneType"),
        ("map_rows", nothing, "returned NoneType"),
        ("map", generator, "returned async_generator"),
        ("filter", nothing, "returned None"),
    ):
        with pytest.raises(ps.PlanError, match=said):
            plain(getattr(data(), verb)(function).batch(10, steps=2))
    with pytest.raises(ps.PlanError, match="column 'x' is coroutine"):
        plain(data().map(column).batch(10), cpus=1)


def test_closing_cancels_what_is_awaited() -> None:
    begun, cancelled = threading.Event(), threading.Event()

    async def hangs(batch: dict[str, Any]) -> dict[str, Any]:
        begun.set()
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return batch

    loader = ps.Loader(data().map(hangs).batch(10))

    def close() -> None:
        begun.wait()
        while not is_awaited(loader):
            time.sleep(0.01)
        loader.close()

    closing = threading.Thread(target=close)
    closing.start()
    with pytest.raises(ps.ProcessError, match="closed"):
        next(iter(loader))
    closing.join()
    assert cancelled.is_set()


def test_a_client_of_the_loop_lasts_from_pass_to_pass() -> None:
    loops = set[Any]()

    async def notes(batch: dict[str, Any]) -> dict[str, Any]:
        loops.add(asyncio.get_running_loop())
        return batch

    for _ in range(2):
        with ps.Loader(data().map(notes).batch(10)) as loader:
            next(iter(loader))
            list(loader)
    assert len(loops) == 1


@pytest.mark.slow
def test_a_loader_within_one_that_would_wait_for_itself_is_an_error() -> None:
    async def reads(batch: dict[str, Any]) -> dict[str, Any]:
        with ps.Loader(data().map(doubled).batch(10)) as inner:
            inner.batch_at(0, 0)
        return batch

    async def reads_in_a_thread(batch: dict[str, Any]) -> dict[str, Any]:
        await asyncio.to_thread(plain, data().map(doubled).batch(10))
        return batch

    with pytest.raises(ps.PlanError, match="call asyncio"):
        plain(data().map(reads).batch(10), cpus=1)
    assert len(plain(data().map(reads_in_a_thread).batch(30))) == 2


def test_no_coroutine_is_left_that_was_never_awaited() -> None:
    """Neither where the loop is the caller's own thread, nor where it is cancelled before it began."""

    async def waits_for_itself() -> str:
        made = doubled({})
        with pytest.raises(ps.PlanError, match="call asyncio"):
            event_loop.finished(made)
        return inspect.getcoroutinestate(made)

    assert event_loop.finished(waits_for_itself()) == inspect.CORO_CLOSED

    made = doubled({})
    call = event_loop._Call(made)  # in no other way is it cancelled between the two

    async def begins_and_cancels() -> None:
        call.begin()
        call.cancel()
        await asyncio.sleep(0.01)

    asyncio.run(begins_and_cancels())
    assert call.ended.is_set()
    assert inspect.getcoroutinestate(made) == inspect.CORO_CLOSED


SCRIPT = """
import asyncio, os, time
import numpy as np
import penstock as ps

async def twice(batch):
    await asyncio.sleep(0)
    return {"x": batch["x"] * 2}

plan = ps.from_arrays({"x": np.arange(40)}).map(twice).batch(10)
assert len(list(ps.Loader(plan))) == 4
child = os.fork()
if child == 0:
    os._exit(0 if len(list(ps.Loader(plan))) == 4 else 1)
assert os.waitpid(child, 0)[1] == 0

async def blocks(batch):
    threading.Timer(2, loader.close).start()
    time.sleep(1000)

loader = ps.Loader(ps.from_arrays({"x": np.arange(40)}).map(blocks).batch(10), watchdog=0.3)
import threading, warnings
warnings.simplefilter("ignore")
try:
    next(iter(loader))
except ps.ProcessError:
    assert len(list(ps.Loader(plan))) == 4  # by another loop
    print("done", flush=True)
"""


@pytest.mark.slow
def test_forks_and_functions_that_block_the_loop() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=110, check=False, env=os.environ
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert "stage 'map blocks'" in done.stderr
    assert "step 0" in done.stderr


@pytest.mark.slow
def test_in_processes_as_on_threads() -> None:
    async def waits(row: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        began_at = time.perf_counter()
        await asyncio.sleep(0.01)
        return {"x": row["x"], "drawn": rng.random(), "late": time.perf_counter() - began_at > 20}

    for verb, function in (("map_rows", waits), ("map", doubled)):
        there = getattr(data(), verb)(function, workers="process").batch(20)
        assert plain(there, cpus=1) == plain(getattr(data(), verb)(function).batch(20))
