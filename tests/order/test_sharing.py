"""Ranks that share lanes: any number that divides the batch reads the same batches, and what it costs is what is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.order.lanes import default_lanes, divisors
from penstock.order.sharing import explain_ranks, explain_sharing, extra_blocks, lanes_for
from penstock.order.steps.batches import BatchOrder
from penstock.order.steps.cursor import Work
from support import cases, tfrecords
from support import promises as contracts
from support.matrix import crossed
from support.orders import order_of
from support.seams import lowered_of

SAMPLES = 2_500


def arrays(_: Path) -> ps.Dataset:
    return ps.from_arrays({"id": np.arange(SAMPLES), "wide": np.arange(SAMPLES * 40).reshape(SAMPLES, 40)})


def short_rows(_: Path) -> ps.Dataset:
    return ps.from_arrays({"id": np.arange(SAMPLES), "half": np.arange(SAMPLES, dtype=np.float16)})


def json_lines(folder: Path) -> ps.Dataset:
    for number, ids in enumerate(np.array_split(np.arange(SAMPLES), 3)):
        (folder / f"{number}.jsonl").write_text("".join(json.dumps({"id": row}) + "\n" for row in ids.tolist()))
    return ps.read(folder)


def tensorflow_records(folder: Path) -> ps.Dataset:
    for number, ids in enumerate(np.array_split(np.arange(SAMPLES), 3)):
        records = [tfrecords.example(id=tfrecords.integers(row)) for row in ids.tolist()]
        tfrecords.write(folder / f"{number}.tfrecord", records)
    return ps.read(folder)


def parquet(folder: Path) -> ps.Dataset:
    pq.write_table(pa.table({"id": np.arange(SAMPLES)}), folder / "0.parquet", row_group_size=100)
    return ps.read(folder)


NUMBERS = [(96, 3), (96, 12), (240, 5), (192, 6), (384, 24), (768, 12), (30, 30), (1_250, 125)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("numbers", "open_data"), crossed(NUMBERS, [arrays, short_rows, json_lines, tensorflow_records, parquet])
)
def test_ranks_read_one_batch(open_data: Any, numbers: tuple[int, int], tmp_path: Path) -> None:
    """Every rank's batches, joined in rank order, are those of one rank; the data says which rows they are."""
    batch, world = numbers
    dataset = open_data(tmp_path).shuffle(seed=3, block_rows=9).batch(batch, wrap=True)
    with ps.Loader(dataset, rank=0, world_size=1, epochs=1) as loader:
        wanted = [contracts.keep(part) for part in loader]
        assert [part["id"].tolist() for part in wanted] == [
            loader.sample_ids(0, n).tolist() for n in range(len(loader))
        ]
    found: list[list[dict[str, Any]]] = []
    for rank in range(world):
        with ps.Loader(dataset, rank=rank, world_size=world, epochs=1) as loader:
            found.append([contracts.keep(part) for part in loader])
            assert {len(part["id"]) for part in found[-1]} == {loader.batch_size} == {batch // world}
            contracts.assert_same(loader.batch_at(0, 1), found[-1][1])
    for step, parts in enumerate(zip(*found, strict=True)):
        contracts.assert_same(contracts.join(parts), wanted[step], f"step {step}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("last", "order"), crossed(["short", "drop_last", "pad", "wrap"], ["natural", "blocks", "global"])
)
def test_a_state_goes_on_with_any_number_of_ranks(order: str, last: str) -> None:
    """Saved on 4 ranks, then 3, 6, 5, 60 and 1: with 4 lanes, most of them share some."""
    dataset, _ = cases.numbered(427)
    if order != "natural":
        dataset = dataset.shuffle(seed=2, **({"block_rows": 5} if order == "blocks" else {"mode": "global"}))
    dataset = dataset.batch(60, lanes=4, **({} if last == "short" else {last: True}))
    with ps.Loader(dataset, rank=0, world_size=1) as loader:
        wanted = [contracts.keep(batch) for batch in contracts.walk(loader, 3 * len(loader))]
    state, done = None, 0
    for world in (4, 3, 6, 5, 1 if last == "short" else 60, 1):
        loaders = [ps.Loader(dataset, rank=rank, world_size=world, prefetch=1) for rank in range(world)]
        for loader in loaders:
            if state is not None:
                loader.load_state_dict(state)
        for parts in zip(*(contracts.walk(loader, 3) for loader in loaders), strict=True):
            contracts.assert_same(contracts.join(parts), wanted[done], f"{world} ranks, step {done}")
            done += 1
        (state,) = {json.dumps(loader.state_dict()): loader.state_dict() for loader in loaders}.values()
        for loader in loaders:
            loader.close()


@pytest.mark.slow
@pytest.mark.parametrize("last", ["short", "pad"])
@pytest.mark.parametrize(("lanes", "world"), [(4, 3), (4, 6), (1, 6), (6, 4), (3, 4)])
def test_a_rank_reads_a_block_once(lanes: int, world: int, last: str) -> None:
    """Also of a lane that it shares; and all ranks together read no more than `explain` says."""
    dataset, storage = cases.numbered(1019, 2)
    dataset = dataset.shuffle(seed=1, block_rows=13).batch(12, lanes=lanes, **cases.LAST[last])
    read_bytes = 0
    for rank in range(world):
        loader = ps.Loader(dataset, rank=rank, world_size=world)
        read, order = lowered_of(loader).stages[0].work, lowered_of(loader).order
        storage.reads.clear()
        for step in range(order.full_steps):
            read(Work(0, step, 1))
        if last == "short":  # padding repeats rows
            read(Work(0, order.full_steps, 1))
        taken = [(path, byte) for path, start, size in storage.reads for byte in range(start, start + size)]
        assert len(set(taken)) == len(taken), "a byte was read twice by one rank"
        read_bytes += len(taken)
    size = sum(map(len, storage.files.values()))
    assert size * 0.95 < read_bytes <= size * (1 + extra_blocks(order, world))
    assert read_bytes > size, "no lane was shared"


def test_files_that_are_samples_are_read_by_one_rank(photos: Path) -> None:
    dataset = ps.read(photos).shuffle(seed=0).batch(6, drop_last=True, lanes=2)
    assert [node.requests for node in dataset.simulate(world_size=3).nodes] == [36]
    assert [node.requests for node in dataset.simulate(world_size=3, nodes=3).nodes] == [12, 12, 12]


def order(batch: int, lanes: int | None = None, block_rows: int = 50) -> BatchOrder:
    return order_of(
        samples=100_000, batch_size=batch, lanes=lanes or default_lanes(batch), block_rows=block_rows, window_blocks=2, seed=0
    )  # fmt: skip


@pytest.mark.parametrize(
    ("batch", "ranks", "lanes"),
    [(96, [3], 48), (384, [24], 48), (240, [5], 60), (192, [6], 48), (768, [12], 48), (254, [127], 127)],
)
def test_the_lanes_that_are_named_avoid_sharing(batch: int, ranks: list[int], lanes: int) -> None:
    assert lanes_for(batch, ranks) == lanes
    assert explain_sharing(order(batch), ranks[0])
    assert explain_sharing(order(batch, lanes), ranks[0]) == []
    assert extra_blocks(order(batch, lanes), ranks[0]) == 0


def test_what_ranks_cost_is_explained() -> None:
    assert explain_ranks(order(96)) == (
        "ranks: 1, 2, 4, 8, 16, 32 read each block once; others that divide 96 (3, 6, 12, 24, 48, 96) share lanes and read some "
        "blocks more than once; lanes=48 avoids it for 3, 6, 12, 24, 48"
    )
    assert explain_ranks(order(96, block_rows=1)) == "ranks: any number that divides 96"
    assert explain_ranks(order(64)) == "ranks: any number that divides 64"
    assert extra_blocks(order(96), 3) == pytest.approx(34 / 32 - 1)
    assert [ranks for ranks in divisors(96) if explain_sharing(order(96), ranks)] == [3, 6, 12, 24, 48, 96]


def test_a_dataset_and_a_report_say_it() -> None:
    dataset, _ = cases.numbered(1019)
    dataset = dataset.shuffle(seed=0, block_rows=7).batch(96, drop_last=True)
    told = "ranks share lanes, since 3 does not divide 32 lanes: up to 6% more blocks are read; batch(…, lanes=48) avoids it"
    assert told in dataset.explain(world_size=3)
    assert "ranks: 3 with 32 rows each" in dataset.explain(world_size=3)
    assert "lanes=48 avoids it for 3, 6, 12, 24, 48" in dataset.explain()
    for world in (2, 3):
        with ps.Loader(dataset, rank=0, world_size=world) as loader:
            next(iter(loader))
            assert (told.replace("…", "...") in loader.report()) == (world == 3)
    assert "share" not in dataset.explain(world_size=4)
    with pytest.raises(ps.PlanError, match="world_size=7 does not divide the global batch of 96 rows"):
        dataset.explain(world_size=7)
