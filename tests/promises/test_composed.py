"""concat, take and skip keep every promise: exact order, ranks, resuming, the cache's forecast, clear errors."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from support import promises
from support.cases import MemoryStorage

COUNTS = (23, 40, 17)


def three(folder: Path) -> list[ps.Dataset]:
    """Memory, records in files, and blocks of columns, whose ids go on from one to the next."""
    first = np.cumsum([0, *COUNTS])
    ids = [np.arange(first[number], first[number + 1]) for number in range(3)]
    texts = [[f"row {number}" for number in some] for some in ids]
    lines = [
        json.dumps({"id": int(number), "text": text}) + "\n" for number, text in zip(ids[1], texts[1], strict=True)
    ]
    if not (folder / "a.jsonl").exists():  # what is written anew must be opened anew
        (folder / "a.jsonl").write_text("".join(lines[:15]))
        (folder / "b.jsonl").write_text("".join(lines[15:]))
        pq.write_table(pa.table({"id": ids[2], "text": texts[2]}), folder / "c.parquet", row_group_size=5)
    return [
        ps.from_arrays({"id": ids[0], "text": texts[0]}),
        ps.read([folder / "a.jsonl", folder / "b.jsonl"]),
        ps.read(folder / "c.parquet"),
    ]


def whole(folder: Path) -> ps.Dataset:
    return ps.concat(three(folder))


def even(batch: dict[str, Any]) -> dict[str, Any]:
    return {"id": batch["id"], "twice": batch["id"] * 2}


PLANS: dict[str, Callable[[Path], ps.Dataset]] = {
    "natural": lambda folder: whole(folder).batch(12),
    "a slice of it": lambda folder: whole(folder).skip(20).take(45).batch(12),
    "shuffled above": lambda folder: whole(folder).shuffle(seed=1, block_rows=4).batch(12, lanes=4),
    "single rows": lambda folder: whole(folder).shuffle(seed=1, mode="global").batch(12),
    "a shuffled slice": lambda folder: whole(folder).take(50).shuffle(seed=1, block_rows=3).batch(12, drop_last=True),
    "slices of sources": lambda folder: ps.concat([one.skip(3).take(11) for one in three(folder)]).shuffle(seed=2, block_rows=4).batch(12),
    "shuffled below": lambda folder: ps.concat([one.shuffle(seed=seed, block_rows=3) for seed, one in enumerate(three(folder))]).batch(12),
    "a slice of the order": lambda folder: whole(folder).shuffle(seed=1, block_rows=4).skip(7).take(50).batch(12, lanes=4),
    "padded": lambda folder: ps.concat([one.shuffle(seed=3, block_rows=3) for one in three(folder)]).batch(12, pad=True),
    "wrapped": lambda folder: whole(folder).shuffle(seed=3, block_rows=4).skip(5).batch(12, wrap=True),
    "every third": lambda folder: whole(folder).every(3).batch(12),
    "every second of every third": lambda folder: ps.concat([one.skip(1).every(2) for one in three(folder)]).every(3).shuffle(seed=1, block_rows=3).batch(4),
    "functions of each": lambda folder: ps.concat([one.map(even) for one in three(folder)]).shuffle(seed=4).batch(12),
    "nested": lambda folder: ps.concat([ps.concat(three(folder)[:2]).map(even), three(folder)[2].map(even)]).batch(12),
}  # fmt: skip


@pytest.fixture(params=PLANS)
def plan(request: pytest.FixtureRequest, tmp_path: Path) -> ps.Dataset:
    return PLANS[request.param](tmp_path)


def test_rows_are_what_their_ids_say(plan: ps.Dataset) -> None:
    """In every epoch each row once, and every column of it."""
    with ps.Loader(plan, rank=0, world_size=1) as loader:
        for epoch in range(2):
            found: list[int] = []
            for step, batch in enumerate(loader):
                ids = batch["id"].tolist()
                assert ids == loader.sample_ids(epoch, step).tolist()
                if "text" in batch:
                    assert batch["text"].to_pylist() == [f"row {number}" for number in ids]
                else:
                    assert batch["twice"].tolist() == [2 * number for number in ids]
                found += batch["id"][batch.get("valid", np.ones(len(ids), bool))].tolist()
            if not promises.batch_node(plan).wrap:
                assert len(set(found)) == len(found)
            full = len(plan) // 12 * 12 if promises.batch_node(plan).drop_last else len(plan)
            assert len(set(found)) == full


def test_resume(plan: ps.Dataset) -> None:
    promises.resume_is_exact(plan)


@pytest.mark.slow
def test_elastic(plan: ps.Dataset) -> None:
    promises.ranks_make_one_batch(plan)


def ids_of(dataset: ps.Dataset, epochs: int = 1) -> list[list[int]]:
    with ps.Loader(dataset, rank=0, world_size=1) as loader:
        return [[number for batch in loader for number in batch["id"].tolist()] for _ in range(epochs)]


def test_the_natural_order_is_exact(tmp_path: Path) -> None:
    data, samples = whole(tmp_path), sum(COUNTS)
    assert ids_of(data.batch(7)) == [list(range(samples))]
    for first, count in ((0, 5), (22, 2), (20, 45), (62, 100), (79, 1)):
        assert ids_of(data.skip(first).take(count).batch(4)) == [list(range(first, min(first + count, samples)))]
    assert ids_of(data.take(30).skip(28).batch(4)) == [[28, 29]]
    assert len(data.skip(20).take(100)) == 60


@pytest.mark.parametrize("count", [1, 12, 31, 79])
def test_take_and_skip_of_an_order_are_all_of_it(tmp_path: Path, count: int) -> None:
    shuffled = whole(tmp_path).shuffle(seed=5, block_rows=4)
    taken, rest = ids_of(shuffled.take(count).batch(12), 3), ids_of(shuffled.skip(count).batch(12), 3)
    for some, others in zip(taken, rest, strict=True):
        assert len(some) == count
        assert sorted(some + others) == list(range(sum(COUNTS)))
    assert count == 79 or taken[0] != taken[1]


def test_shuffled_inputs_stay_one_after_another(tmp_path: Path) -> None:
    """But for the seam, where lanes differ by a row."""
    (epoch,) = ids_of(ps.concat([one.shuffle(seed=1) for one in three(tmp_path)]).batch(8))
    for number, (first, last) in enumerate(((0, 23), (23, 63), (63, 80))):
        assert {*epoch[first + 8 * bool(number) : last - 8]} <= {*range(first, last)}


def test_a_dataset_twice_is_two_sources(tmp_path: Path) -> None:
    one = three(tmp_path)[1]
    plan = ps.concat([one, one]).shuffle(seed=1, block_rows=4).batch(10)
    with ps.Loader(plan, rank=0, world_size=1) as loader:
        rows = [number for step in range(len(loader)) for number in loader.sample_ids(0, step).tolist()]
        assert sorted(number for batch in loader for number in batch["id"].tolist()) == sorted([*range(23, 63)] * 2)
    assert sorted(rows) == list(range(80))


def test_random_ops_draw_by_source_and_sample(tmp_path: Path) -> None:
    """A source's rows are augmented alike whatever comes after it, and its copy is augmented otherwise."""
    images = np.random.default_rng(0).integers(0, 256, (12, 16, 16, 3), dtype=np.uint8)
    data = ps.from_arrays({"image": images, "id": np.arange(12)})
    ops = [ps.image.RandomResizedCrop(8), ps.image.RandomHorizontalFlip()]
    alone = np.concatenate([batch["image"] for batch in ps.Loader(data.transform(image=ops).batch(4))])
    for plan in (ps.concat([data, data]).transform(image=ops), ps.concat([data.transform(image=ops), data])):
        if plan.nodes[-1].verb == "concat":
            continue
        both = np.concatenate([batch["image"] for batch in ps.Loader(plan.batch(4))])
        assert (both[:12] == alone).all()
        assert (both[12:] != alone).any()
    kept = np.concatenate([batch["image"] for batch in ps.Loader(data.skip(5).transform(image=ops).batch(7))])
    assert (kept == alone[5:]).all()


def test_requests_are_simulated_as_they_are_made(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    three(folder)
    files = {f"data/{path.name}": path.read_bytes() for path in folder.glob("*.jsonl")}
    storages = [MemoryStorage(files), MemoryStorage(files)]
    sources = [ps.read("data/", format="jsonl", storage=storage) for storage in storages]
    for storage in storages:
        storage.reads.clear()
    plan = ps.concat(sources).shuffle(seed=1, block_rows=4).skip(4).batch(12)
    expected = plan.simulate(epochs=1)
    with ps.Loader(plan, rank=0, world_size=1, epochs=1) as loader:
        assert sum(len(batch["id"]) for batch in loader) == 76
    read = sum(size for storage in storages for _, _, size in storage.reads)
    assert expected.steps_per_epoch == 7
    whole = sum(len(data) for data in files.values()) * 2
    assert whole * 0.8 < read <= whole  # a block is read once
    assert expected.nodes[0].bytes >= read  # requests to a store bridge gaps
    assert expected.rank_bytes_in_memory > 0


def test_describing_does_no_io(tmp_path: Path) -> None:
    (tmp_path / "x.jpg").write_bytes(b"\xff\xd8 no image at all")
    plan = ps.concat([ps.read(tmp_path), ps.read(tmp_path)]).transform(image=ps.image.Decode()).batch(1)
    (tmp_path / "x.jpg").unlink()
    for part in ("input 1", "1. concat inputs=2", "Source 1: 1 samples", "read (io"):
        assert part in plan.explain()
    assert repr(plan) == "Dataset(2 samples: [read, read] -> concat -> transform -> batch)"
    assert len(plan) == 2


def test_a_source_that_is_read_forward_comes_in_its_turn() -> None:
    """Between others, in every epoch anew, and on two ranks."""

    def drawn() -> Iterator[dict[str, int]]:
        return ({"id": number} for number in range(10, 25))

    first, last = (ps.from_arrays({"id": np.arange(*ends)}) for ends in ((0, 10), (25, 31)))
    plan = ps.concat([first, ps.from_iterable(drawn, spool=False, samples=15), last]).batch(4, lanes=4)
    assert ids_of(plan, 2) == [[*range(31)]] * 2
    ranks = [ps.Loader(plan, rank=rank, world_size=2) for rank in range(2)]
    steps = zip(*ranks, strict=True)
    assert [number for parts in steps for part in parts for number in part["id"].tolist()] == [*range(31)]


def test_nodes_join_files_of_their_own() -> None:
    """Each of two nodes joins two sources; both have as many steps, each of its own rows."""
    own = [[np.arange(100 * node, 100 * node + 9), np.arange(100 * node + 50, 100 * node + 60)] for node in range(2)]
    for node, sources in enumerate(own):
        joined = ps.concat([ps.from_arrays({"id": ids}) for ids in sources]).shard([19, 19])
        with ps.Loader(joined.shuffle(seed=1).batch(8, drop_last=True), rank=node, world_size=2) as loader:
            steps = [batch["id"].tolist() for batch in loader]
        assert [len(step) for step in steps] == [4] * 4
        found = [number for step in steps for number in step]
        assert len({*found}) == 16
        assert {*found} <= {*np.concatenate(sources).tolist()}


def other(**columns: Any) -> ps.Dataset:
    return ps.from_arrays(columns or {"id": np.arange(5)})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ps.concat([]), r"concat: no datasets; pass a list of at least one"),
        (lambda: ps.concat([other(), [1, 2]]), r"concat: entry 1 is list; pass a list of datasets"),
        (lambda: ps.concat([other(a=[1]), other(b=[1])]), r"dataset 0 \(memory\) has a column 'a', and dataset 1 \(memory\) has none; select"),
        (lambda: ps.concat([other(), other(id=np.zeros(3))]), r"column 'id' is int64 in dataset 0 \(memory\) and float64 in dataset 1"),
        (lambda: ps.concat([other(id=np.zeros((3, 2))), other(id=np.zeros((3, 4)))]), r"column 'id' is float64\(2\) in dataset 0"),
        (lambda: ps.concat([other().batch(2), other()]), r"dataset 0 has a batch already; write concat\(\[…\]\)\.batch"),
        (lambda: ps.concat([other().shuffle(), other()]), r"dataset 0 is shuffled and dataset 1 is not; shuffle all of them, or none"),
        (lambda: ps.concat([other().shuffle(), other().shuffle()]).shuffle(), r"shuffles already"),
        (lambda: other().take(-1), r"take\(-1\): a number of rows"),
        (lambda: other().skip(2.5), r"skip\(2\.5\): a number of rows"),
        (lambda: other().take(0).batch(1), r"take\(0\): no rows are left to make a batch of; take at least one"),
        (lambda: other().skip(5).batch(1), r"skip\(5\): there are 5 rows, and none is left; skip fewer"),
        (lambda: other().shuffle().skip(9).batch(1), r"skip\(9\): there are 5 rows, and none is left"),
        (lambda: other().batch(2).take(1), r"take: must come before batch, since it counts rows"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        make()


def test_functions_that_return_other_columns_are_refused_when_they_meet() -> None:
    plan = ps.concat([other().map(lambda batch: {"a": batch["id"]}), other().map(lambda batch: {"b": batch["id"]})])
    with pytest.raises(ps.PlanError, match="concat: dataset 0 has the columns a, and dataset 1 b; let the functions"):
        list(ps.Loader(plan.shuffle(seed=0).batch(10)))
    with pytest.raises(ps.PlanError, match=r"concat: dataset . has the columns ., and dataset"):
        list(ps.Loader(plan.batch(5)))  # no step has rows of both
    plan = ps.concat([other().map(dict), other().map(lambda batch: {"id": batch["id"] / 2})])
    with pytest.raises(ps.PlanError, match="concat: column 'id' is int64 in dataset 0 and float64 in dataset 1"):
        list(ps.Loader(plan.shuffle(seed=0).batch(10)))


def test_other_class_folders_are_refused(tmp_path: Path) -> None:
    for name in ("one/cat", "one/dog", "two/cat", "two/bird"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x.jpg").write_bytes(b"\xff\xd8")
    with pytest.raises(
        ps.PlanError, match="the class folders differ, cat, dog and bird, cat, so that one label would mean"
    ):
        ps.concat([ps.read(tmp_path / "one"), ps.read(tmp_path / "two")])
    classes = ["bird", "cat", "dog"]
    both = ps.concat([ps.read(tmp_path / name, classes=classes) for name in ("one", "two")])
    assert both.classes == tuple(classes)


def test_a_bad_row_is_named_with_its_source(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text('{"x": 1}\n' * 5)
    bad.write_text('{"x": 1}\n' * 3)
    plan, listed = ps.concat([ps.read(good), ps.read(bad)]).batch(4), bad.stat()
    bad.write_text('{"x": 1}\n' * 2 + '{"x": ]}\n')
    os.utime(bad, ns=(listed.st_atime_ns, listed.st_mtime_ns))
    with pytest.raises(ps.DataError, match=r"bad\.jsonl, record 2") as raised:
        list(ps.Loader(plan))
    error = raised.value
    assert error.where.endswith("bad.jsonl, record 2, byte 18")
    assert (error.sample, str(error).partition(": ")[2]) == (
        2,
        f"{error.found}; {error.do}" if error.do else error.found,
    )
