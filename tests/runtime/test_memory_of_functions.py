"""Loader(memory=…) where functions and lane stages make more than they are given: anonymous memory of a process of its own, or what is refused."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.order.steps.cursor import Work
from penstock.runtime.budget import Budget
from support.seams import lowered_of
from support.tfrecords import block, frame

CHILD = """
import sys, threading, time
import numpy as np
import penstock as ps


def anonymous():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))


def wide(batch):
    return {"i": batch["i"], "x": np.ones((len(batch["i"]), 2_500)) * batch["i"][:, None]}


def large(batch):
    return {"x": batch["i"][:, None] * np.ones((1, 62_500))}


def many(batch):
    return {"x": np.repeat(batch["i"], 100)[:, None] * np.ones((1, 1_250))}


numbers = ps.from_arrays({"i": np.arange(40_000.0)})
PLANS = {
    "map": numbers.map(large).batch(64),
    "filter": numbers.map(wide).filter(lambda batch: batch["i"] % 100 == 7).batch(64),
    "flat_map": numbers.flat_map(many, rows=1).batch(64, lanes=4, drop_last=True),
}
for batch in ps.Loader(numbers.batch(100)):
    pass
began, most, one = anonymous(), 0, 0


def watch():
    global most
    while True:
        most = max(most, anonymous() - began)
        time.sleep(0.001)


threading.Thread(target=watch, daemon=True).start()
with ps.Loader(PLANS[sys.argv[1]], memory=sys.argv[2]) as loader:
    for number, batch in zip(range(60), loader):
        one = max(one, sum(column.nbytes for column in batch.values()))
        if number == 2:
            time.sleep(0.3)  # the consumer stands still
print(most, one)
"""


@pytest.mark.parametrize(("plan", "memory"), [("map", 80), ("filter", 64), ("flat_map", 64)])
def test_what_functions_make_keeps_to_the_budget(plan: str, memory: int) -> None:
    """Batches of 32 MB of 512 bytes; the hundredth part of rows of 20 KB; rows of 1 MB of one number."""
    child = subprocess.run(
        [sys.executable, "-c", CHILD, plan, f"{memory}MB"], capture_output=True, text=True, timeout=280, check=False
    )
    assert child.returncode == 0, child.stderr
    most, one = map(int, child.stdout.split())
    assert most <= 1.1 * memory * 1e6 + one


def documents(folder: Path, rows: int = 2_000, tokens: int = 2_000) -> ps.Dataset:
    pq.write_table(pa.table({"tokens": pa.array([np.arange(tokens)] * rows)}), folder / "x.parquet", row_group_size=100)
    return ps.read(folder / "x.parquet")


def test_windows_of_packing_that_are_more_than_the_budget_are_said(tmp_path: Path) -> None:
    """16 KB of tokens a row; what comes of them has segments, positions and a mask beside them."""
    data = documents(tmp_path)
    with (
        ps.Loader(data.pack("tokens", length=4_096).batch(64), memory="64MB") as loader,
        pytest.warns(UserWarning, match=r"what pack\(tokens\) made takes .* in 64 lanes, .* pack\(…, window=…\)"),
    ):
        next(iter(loader))


def test_large_rows_of_which_little_comes_are_not_refused() -> None:
    """16 KB a row, 64 lanes and 200 rows together would be 200 MB, if as much came of them."""

    def sums(batch: Any) -> Any:
        return {"n": batch["x"].sum(axis=1)}

    plan = ps.from_arrays({"x": np.zeros((13_000, 2_000))}).flat_map(sums, rows=200).batch(64)
    with ps.Loader(plan, memory="64MB", epochs=1) as loader:
        assert sum(len(batch["n"]) for batch in loader) == 13_000


def test_rows_that_a_filter_leaves_keep_no_others_in_memory(tmp_path: Path) -> None:
    """Bytes lie in records that were read together."""
    records = [bytes([number % 50]) * 1_000 for number in range(1_000)]
    examples = [block(1, block(1, block(1, b"data") + block(2, block(1, block(1, one))))) for one in records]
    (tmp_path / "x.tfrecord").write_bytes(b"".join(map(frame, examples)))

    def first(batch: Any) -> Any:
        return [one.as_py()[0] == 7 for one in batch["data"]]

    plan = ps.read(tmp_path / "x.tfrecord").filter(first).batch(4, lanes=2)
    with ps.Loader(plan) as loader:
        (feed,) = lowered_of(loader).lanes.feeds
        kept, keep = list[int](), feed._made.keep

        def keep_noted(made: Any, *where: Any) -> None:
            kept.append(sum(len(buffer) for one in made.columns.values() for buffer in one.buffers))
            keep(made, *where)

        feed._made.keep = keep_noted  # type: ignore[method-assign]
        found = [bytes(one.as_py()) for batch in loader for one in batch["data"]]
    assert found == [record for record in records if record[0] == 7]
    assert sum(kept) == 1_000 * len(found)


def test_what_waits_for_being_taken_is_said_where_it_is_more_than_may_be_held() -> None:
    def many(batch: Any) -> Any:
        return {"x": np.repeat(batch["i"], 1_000)[:, None] * np.ones((1, 500))}

    numbers = ps.from_arrays({"i": np.arange(64.0)})
    with (
        ps.Loader(numbers.flat_map(many, rows=1).batch(64), memory="64MB") as loader,
        pytest.warns(UserWarning, match=r"what flat_map\(.*many\) made takes .* in 64 lanes, .* batch\(…, lanes=…\)"),
    ):
        next(iter(loader))


def test_of_rows_that_become_many_few_are_asked_for_at_once() -> None:
    asked = list[int]()

    def many(batch: Any) -> Any:
        return {"x": np.repeat(batch["i"], 1_000)[:, None] * np.ones((1, 125))}

    with ps.Loader(
        ps.from_arrays({"i": np.arange(2_000.0)}).flat_map(many, rows=1).batch(64, lanes=2), memory="64MB"
    ) as loader:
        (feed,) = lowered_of(loader).lanes.feeds
        keep = feed._keep

        def kept(item: Any) -> None:
            asked.append(int(item.work.asked.count.sum()))
            keep(item)

        feed._keep = kept  # type: ignore[method-assign]
        for _ in zip(range(1_000), loader, strict=False):
            pass
    assert max(asked) <= 16, "of a row comes a megabyte"
    assert asked[-1] <= 2


def test_a_large_batch_is_not_made_twice_to_compare() -> None:
    rows = list[int]()

    def large(batch: Any) -> Any:
        rows.append(len(batch["i"]))
        return {"x": batch["i"][:, None] * np.ones((1, 500_000))}

    with ps.Loader(ps.from_arrays({"i": np.arange(64.0)}).map(large).batch(8), epochs=1) as loader:
        assert len(list(loader)) == 8
    assert sorted(rows) == [2, 2, *[8] * 8]


def test_nothing_follows_the_first_item_of_a_chosen_budget_before_its_growth_is_known() -> None:
    budget = Budget(1_000, is_exact=False)
    budget.learns_first = True
    works = [Work(0, step, 1) for step in range(3)]
    list(budget.follow(iter(works)))
    first = budget.admit(works[0], asked_bytes=1, ends_turn=True)
    admitted = list[int]()
    waiting = threading.Thread(
        target=lambda: admitted.append(budget.admit(works[1], asked_bytes=1, ends_turn=True).reserved_bytes)
    )
    waiting.start()
    waiting.join(0.3)
    assert not admitted, "the first may take any size"
    budget.finish(first, 400)
    waiting.join(60)
    assert admitted == [400]
    assert budget.waited_s == 0, "that is no lack of room"


def test_items_of_which_nothing_is_asked_for_take_what_those_before_took() -> None:
    budget = Budget(1_000, is_exact=False)
    works = [Work(0, step, 1) for step in range(3)]
    list(budget.follow(iter(works)))
    first = budget.admit(works[0], asked_bytes=0, ends_turn=True)
    assert first.reserved_bytes == 0
    budget.finish(first, 400)
    assert budget.admit(works[1], asked_bytes=0, ends_turn=True).reserved_bytes == 400


@pytest.mark.parametrize("stage", ["none", "filter", "pack"])
def test_functions_run_side_by_side_in_a_chosen_budget(stage: str) -> None:
    """Once the first batch is through, also where only a lane stage knows how large rows are."""
    meet = threading.Barrier(2, timeout=60)
    calls = itertools.count()

    def met(batch: Any) -> Any:
        if next(calls) in (6, 7):
            meet.wait()
        return batch

    numbers = ps.from_arrays({"x": [np.arange(40)] * 2_000})
    plans = {
        "none": lambda: numbers.map(met).batch(16),
        "filter": lambda: numbers.filter(lambda batch: [True] * len(batch["x"])).map(met).batch(16),
        "pack": lambda: numbers.pack("x", length=64).map(met).batch(16, steps=100),
    }
    with ps.Loader(plans[stage](), memory="300MB", cpus=2) as loader:
        assert len([*itertools.islice(loader, 40)]) == 40
