"""filter, split, balance, sample and sort keep every promise: exact rows, ranks, resuming, simulate, clear errors."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock import col
from penstock.looking import rows as looking
from promises.test_composed import COUNTS, ids_of, three, whole
from support import cases, promises
from support.cases import MemoryStorage

pytestmark = pytest.mark.slow

ROWS = sum(COUNTS)
LANES = {"lanes": 4}

PLANS: dict[str, Callable[[Path], ps.Dataset]] = {
    "filtered": lambda folder: whole(folder).filter(col("id") % 3 != 1).batch(12),
    "filtered and shuffled": lambda folder: whole(folder).filter(col("id") % 7 > 1).shuffle(seed=1, block_rows=8).batch(12, **LANES),
    "few of many": lambda folder: whole(folder).filter((col("id") % 10 == 0) | (col("id") > 70)).shuffle(seed=1).batch(4),
    "filtered sources": lambda folder: ps.concat([one.filter(col("id") % 2 == 0).skip(1) for one in three(folder)]).shuffle(seed=3, block_rows=8).batch(12, **LANES),
    "of a filter every second": lambda folder: whole(folder).skip(3).filter(col("text").len() > 5).every(2).shuffle(seed=2, block_rows=8).batch(8),
    "a part": lambda folder: whole(folder).split({"train": 0.7, "val": 0.3}, seed=4)["train"].shuffle(seed=1, block_rows=8).batch(12, **LANES),
    "balanced": lambda folder: whole(folder).balance(col("id") % 10 == 0).shuffle(seed=1).batch(12, **LANES),
    "balanced, under": lambda folder: whole(folder).balance(col("id") % 5, mode="under").shuffle(seed=1, block_rows=8).batch(12, drop_last=True),
    "sampled": lambda folder: whole(folder).sample(50, weights=np.arange(1, ROWS + 1), seed=2).batch(12),
    "sampled again": lambda folder: whole(folder).sample(150, weights=col("id") + 1, replacement=True).shuffle(seed=1).batch(12, **LANES),
    "sorted": lambda folder: whole(folder).sort(col("id") % 17, descending=True).batch(12),
    "sorted, shuffled in blocks": lambda folder: whole(folder).sort(col("text").len()).shuffle(seed=1, block_rows=10).batch(12, **LANES),
    "mixed": lambda folder: ps.mix([one.filter(col("id") % 4 != 0) for one in three(folder)], weights=[3, 2, 1]).shuffle(seed=1, block_rows=8).batch(12, **LANES),
    "copies repeated": lambda folder: whole(folder).balance(col("id") < 20).take(70).shuffle(seed=1).repeat(2).batch(12, pad=True, **LANES),
}  # fmt: skip


@pytest.fixture(params=PLANS)
def plan(request: pytest.FixtureRequest, tmp_path: Path) -> ps.Dataset:
    return PLANS[request.param](tmp_path)


def test_rows_are_what_their_ids_say(plan: ps.Dataset) -> None:
    with ps.Loader(plan, rank=0, world_size=1) as loader:
        for epoch in range(2):
            for step, batch in enumerate(loader):
                ids = batch["id"].tolist()
                assert ids == loader.sample_ids(epoch, step).tolist()
                assert batch["text"].to_pylist() == [f"row {number}" for number in ids]


def test_resume(plan: ps.Dataset) -> None:
    promises.resume_is_exact(plan)


def test_every_epoch_has_the_same_rows(plan: ps.Dataset) -> None:
    if promises.batch_node(plan).drop_last or any(node.verb == "mix" for node in plan.nodes):
        return
    with ps.Loader(plan, rank=0, world_size=1) as loader:
        epochs = [Counter[int]() for _ in range(2)]
        for counts in epochs:
            for batch in loader:
                valid = batch.get("valid", np.ones(len(batch["id"]), dtype=bool))
                counts.update(batch["id"][valid].tolist())
    assert epochs[0] == epochs[1]
    assert epochs[0].total() == len(plan)


@pytest.mark.slow
def test_elastic(plan: ps.Dataset) -> None:
    promises.ranks_make_one_batch(plan)


def test_ranks_share_its_rows(plan: ps.Dataset) -> None:
    """By their ids; `test_elastic` compares batches."""
    with ps.Loader(plan, rank=0, world_size=1) as loader:
        wanted = [loader.sample_ids(1, step).tolist() for step in range(len(loader) - 1)]
    for world in promises.worlds(plan):
        loaders = [ps.Loader(plan, rank=rank, world_size=world) for rank in range(world)]
        for step, ids in enumerate(wanted):
            assert [one for loader in loaders for one in loader.sample_ids(1, step).tolist()] == ids


def test_a_sent_plan_has_the_same_rows(plan: ps.Dataset) -> None:
    sent = pickle.loads(pickle.dumps(plan))
    assert [node.verb for node in sent.nodes] == [node.verb for node in plan.nodes]
    with ps.Loader(plan, rank=0, world_size=1) as one, ps.Loader(sent, rank=0, world_size=1) as other:
        assert one.state_dict() == other.state_dict()
        assert one.sample_ids(3, 1).tolist() == other.sample_ids(3, 1).tolist()


def test_a_filter_is_a_mask(tmp_path: Path) -> None:
    """Over memory, records and columns, and whatever of them was chosen before."""
    ids = np.arange(ROWS)
    data = whole(tmp_path)
    for predicate, mask in (
        (col("id") % 3 == 0, ids % 3 == 0),
        ((col("id") * 2 >= 64) & ~col("id").is_in([40, 41, 79]), (ids >= 32) & ~np.isin(ids, [40, 41, 79])),
        (col("text").is_in(["row 7", "row 30", "row 79", "x"]), np.isin(ids, [7, 30, 79])),
        (col("text") > "row 5", np.array([f"row {one}" > "row 5" for one in ids])),
        (col("id").between(20, 30) | (col("text").len() == 5), ((ids >= 20) & (ids <= 30)) | (ids < 10)),
    ):
        assert ids_of(data.filter(predicate).batch(7)) == [ids[mask].tolist()]
        assert len(data.filter(predicate)) == mask.sum()
        some = data.skip(5).every(2).take(30)
        assert ids_of(some.filter(predicate).batch(7)) == [ids[5::2][:30][mask[5::2][:30]].tolist()]
        twice = data.filter(col("id") != 7).filter(predicate)
        assert ids_of(twice.batch(7)) == [ids[mask & (ids != 7)].tolist()]
        backwards = data.sort(-col("id")).filter(predicate)
        assert ids_of(backwards.batch(7)) == [ids[mask][::-1].tolist()]


WITH_IDS = [name for name in cases.SOURCES if name not in ("database", "folder", "tokens")]


@pytest.mark.parametrize("name", WITH_IDS)
def test_every_source_can_be_looked_at(name: str, tmp_path: Path) -> None:
    """And rows of it be chosen, in order, out of order and several times."""
    data, third = cases.SOURCES[name](61, tmp_path), col("id") % 3 == 0
    wanted = [*range(0, 61, 3)]
    some = [number for number in range(1, 61, 2) if number % 3 == 0]
    heavy = data.balance(third)
    copies = ids_of(heavy.batch(7))[0]
    assert Counter(number % 3 == 0 for number in copies) == {True: 40, False: 40}
    for chosen, ids in (
        (data.filter(third), wanted),
        (data.skip(1).every(2).filter(third), some),
        (data.sort(third), [*(number for number in range(61) if number % 3), *wanted]),
        (heavy, copies),
    ):
        assert ids_of(chosen.batch(7)) == [ids]
        assert sorted(ids_of(chosen.shuffle(seed=0).batch(7))[0]) == sorted(ids)


def test_copies_are_augmented_anew() -> None:
    """In an epoch and in the next one."""
    data = ps.from_arrays({"id": np.arange(12), "label": np.arange(12) // 9})

    def draw(row: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {"id": row["id"], "drawn": rng.integers(1 << 62)}

    twice = ps.concat([data, data.balance("label")])
    for chosen in (data.balance("label"), data.sample(36, replacement=True), twice, data.balance("label").skip(5)):
        drawn: dict[int, list[int]] = {}
        with ps.Loader(chosen.shuffle(seed=0).map_rows(draw).batch(4), rank=0, world_size=1) as loader:
            for _ in range(2):
                for batch in loader:
                    for number, one in zip(batch["id"].tolist(), batch["drawn"].tolist(), strict=True):
                        drawn.setdefault(number, []).append(one)
        assert all(len(set(one)) == len(one) for one in drawn.values())
        assert any(len(one) > 2 for one in drawn.values())


def test_rows_that_come_once_are_augmented_as_without_a_choice() -> None:
    images = np.random.default_rng(0).integers(0, 256, (12, 16, 16, 3), dtype=np.uint8)
    data = ps.from_arrays({"image": images, "id": np.arange(12)})
    ops = {"image": [ps.image.RandomResizedCrop(8)]}
    (alone,) = ps.Loader(data.transform(**ops).batch(12))
    (chosen,) = ps.Loader(data.filter(col("id") >= 4).transform(**ops).batch(8))
    assert (chosen["image"] == alone["image"][4:]).all()


# What is read


def numbered(folder: Path, rows: int = 2000, width: int = 500) -> Path:
    table = pa.table({"id": np.arange(rows), "label": np.arange(rows) % 10, "text": ["x" * width] * rows})
    pq.write_table(table, folder / "a.parquet", row_group_size=200, compression="none", use_dictionary=False)
    return folder / "a.parquet"


def test_only_the_columns_that_a_predicate_names_are_read(tmp_path: Path) -> None:
    storage = MemoryStorage({"data/a.parquet": numbered(tmp_path, width=5000).read_bytes()})
    data = ps.read("data/", storage=storage)
    storage.reads.clear()
    calls: list[tuple[int, int]] = []
    kept = data.filter(col("label") == 3, progress=lambda *done: calls.append(done))
    assert len(kept) == 200
    assert 0 < sum(size for _, _, size in storage.reads) < 2000 * 1000
    assert calls[-1] == (2000, 2000)
    storage.reads.clear()
    plan = kept.shuffle(seed=0).batch(10)
    assert (len(plan), "filter" in repr(plan), "filter" in plan.explain(), storage.reads) == (200, True, True, [])


def test_labels_of_folders_are_known_without_reading(tmp_path: Path) -> None:
    for number in range(30):
        place = tmp_path / ("cat" if number % 3 else "dog")
        place.mkdir(exist_ok=True)
        (place / f"{number}.jpg").write_bytes(b"")  # to read one is an error
    data = ps.read(tmp_path, format="image_folder")
    assert len(data.balance("label")) == 40
    assert len(data.filter(col("path").len() > 0)) == 30


def test_what_was_looked_at_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next process reads what was chosen, until a file changes."""
    looked_at: list[str] = []
    path = numbered(tmp_path)

    def counted(look: Any, verb: str, *given: Any) -> Any:
        looked_at.append(verb)
        return look(verb, *given)

    for name in ("column_values", "true_rows"):
        monkeypatch.setattr(looking, name, partial(counted, getattr(looking, name)))

    def make() -> list[tuple[int, ...]]:
        data = ps.read(path)
        label = data.filter(col("label") < 4)
        parts = data.split({"a": 0.5, "b": 0.5}, by="label").values()
        made = [
            label,
            *parts,
            data.balance("label", mode="under"),
            data.sort("label"),
            data.sample(30, weights=col("id") + 1),
        ]
        with_ids = []
        for one in made:
            with ps.Loader(one.batch(10), rank=0, world_size=1) as loader:
                with_ids.append((len(one), *loader.sample_ids(0, 1).tolist()))
        return with_ids

    first = make()
    assert looked_at == ["filter", "split", "balance", "sort", "sample"]
    assert make() == first
    assert len(looked_at) == 5
    table = pa.table({"id": np.arange(2000), "label": np.arange(2000) % 9, "text": ["x" * 500] * 2000})
    pq.write_table(table, path, row_group_size=200, compression="none", use_dictionary=False)
    assert make() != first
    assert len(looked_at) == 10


def test_requests_are_simulated_as_they_are_made(tmp_path: Path) -> None:
    lines = [f'{{"id": {row}, "text": "{"x" * 80}"}}\n' for row in range(800)]
    storage = MemoryStorage({"data/a.jsonl": "".join(lines).encode()})
    data = ps.read("data/", format="jsonl", storage=storage)
    for chosen, part in (
        (data.filter(col("id") % 4 < 3), 1.0),  # blocks bridge what is left out
        (data.filter(col("id") < 200), 0.25),
        (data.balance(col("id") < 100), 1400 / 800),  # a request gives both copies of a row that a step has twice
        (data.split({"a": 0.5, "b": 0.5})["a"], 1.0),
        (data.sample(60, seed=1), None),
    ):
        plan = chosen.shuffle(seed=1, block_rows=40).batch(20, lanes=4)
        expected = plan.simulate(epochs=1)
        storage.reads.clear()
        with ps.Loader(plan, rank=0, world_size=1, epochs=1) as loader:
            assert sum(len(batch["id"]) for batch in loader) == len(plan)
        read = sum(size for _, _, size in storage.reads)
        assert expected.nodes[0].bytes >= read > 0 or chosen.nodes[-1].verb == "balance"
        all_bytes = sum(map(len, lines))
        if part is not None:
            assert 0.85 * part * all_bytes <= read <= 1.1 * part * all_bytes


def test_a_cache_that_holds_all_reads_each_byte_once(tmp_path: Path) -> None:
    """Also of rows that come several times; and a smaller one keeps what comes next, so that copies come out of it."""
    (tmp_path / "a.jsonl").write_text("".join(f'{{"id": {row}, "text": "{"x" * 4000}"}}\n' for row in range(600)))
    size_bytes = (tmp_path / "a.jsonl").stat().st_size
    data = ps.read(tmp_path / "a.jsonl")
    for chosen in (data.filter(col("id") % 5 > 0), data.balance(col("id") < 60), data.sort(-col("id"))):
        plan = chosen.shuffle(seed=1).batch(20, lanes=4)
        first, second = plan.simulate(epochs=2, cache="64 MB").nodes
        assert 0.7 * size_bytes < first.bytes < 1.5 * size_bytes
        assert (second.requests, second.cache_hits > 0) == (0, True)
    copies = data.balance(col("id") < 60).shuffle(seed=1).batch(20, lanes=4)
    held = [copies.simulate(epochs=2, cache=limit).nodes[1].cache_bytes for limit in ("600 kB", "1500 kB")]
    assert 0 < held[0] < held[1]


# Parts


def labelled(rows: int = 4000) -> ps.Dataset:
    rng = np.random.default_rng(1)
    return ps.from_arrays(
        {
            "id": np.arange(rows),
            "label": rng.integers(0, 7, rows) ** 2,
            "user": [f"user {one}" for one in rng.integers(0, 300, rows)],
        }
    )


SHARES = {"train": 0.8, "val": 0.15, "test": 0.05}


@pytest.mark.parametrize(
    "how", [{}, {"by": "user"}, {"stratify": "label"}, {"stratify": "user"}, {"by": col("id") // 8}]
)
def test_parts_are_disjoint_and_complete(how: dict[str, Any]) -> None:
    data = labelled()
    parts = data.split(SHARES, **how)
    found = [ids_of(part.batch(1000))[0] for part in parts.values()]
    assert sorted(number for part in found for number in part) == [*range(4000)]
    assert [len(part) for part in parts.values()] == [*map(len, found)]
    for part, share in zip(found, SHARES.values(), strict=True):
        assert abs(len(part) - share * 4000) < 250
    again = data.split(SHARES, **how, seed=1)["val"]
    assert ids_of(again.batch(1000))[0] != found[1]


def test_rows_of_a_group_stay_together() -> None:
    parts = labelled().split(SHARES, by="user").values()
    users = [{user for batch in ps.Loader(part.batch(500)) for user in batch["user"].to_pylist()} for part in parts]
    assert sum(map(len, users)) == len(set.union(*users)) == 300


def test_every_class_has_its_shares_to_the_row() -> None:
    data = labelled()
    for column in ("label", "user"):
        parts = data.split(SHARES, stratify=column).values()
        counts = [Counter(one for batch in ps.Loader(part.batch(500)) for one in batch[column].tolist()) for part in parts] if column == "label" else [Counter(one for batch in ps.Loader(part.batch(500)) for one in batch[column].to_pylist()) for part in parts]  # fmt: skip
        for value, rows in sum(counts, Counter()).items():
            for count, share in zip(counts, SHARES.values(), strict=True):
                assert abs(count[value] - rows * share) < 1
        assert abs(counts[1].total() - 600) < 40


def test_files_that_are_added_move_no_row(tmp_path: Path) -> None:
    def write(name: str, first: int, rows: int) -> None:
        (tmp_path / name).write_text("".join(f'{{"id": {row}}}\n' for row in range(first, first + rows)))

    def train() -> set[int]:
        part = ps.read(tmp_path / "data").split({"train": 0.5, "rest": 0.5}, seed=3)["train"]
        return {*ids_of(part.batch(100))[0]}

    (tmp_path / "data").mkdir()
    write("data/b.jsonl", 0, 200)
    write("data/c.jsonl", 200, 200)
    before = train()
    write("data/a.jsonl", 400, 300)  # stands before the others
    (tmp_path / "data" / "d").mkdir()
    write("data/d/b.jsonl", 700, 200)
    after = train()
    assert {number for number in after if number < 400} == before
    assert {number - 700 for number in after if number >= 700} != {number for number in before if number < 200}
    small, large = (ps.from_arrays({"id": np.arange(rows)}).split(SHARES)["train"] for rows in (100, 150))
    assert ids_of(small.batch(10))[0] == [number for number in ids_of(large.batch(10))[0] if number < 100]


# Classes and chance


def test_classes_are_balanced_to_the_row() -> None:
    data = labelled()
    labels = np.concatenate([batch["label"] for batch in ps.Loader(data.batch(500))])
    counts = np.bincount(labels)
    counts = counts[counts > 0]
    for mode, wanted in (("over", counts.max()), ("under", counts.min())):
        balanced = data.balance("label", mode=mode)
        rows = Counter(number for number in ids_of(balanced.batch(500))[0])
        by_class = Counter(labels[number] for number in rows.elements())
        assert {*by_class.values()} == {wanted}
        for label in by_class:
            mine = [rows[number] for number in np.flatnonzero(labels == label).tolist()]
            assert max(mine) - min(mine) <= 1
        assert len(balanced) == wanted * 7
    assert ids_of(data.balance("label", mode="under", seed=1).batch(500)) != ids_of(
        data.balance("label", mode="under").batch(500)
    )
    assert len(data.balance("user", mode="under")) % 300 == 0


def test_rows_come_as_often_as_their_weights_say() -> None:
    rows = 1000
    data = ps.from_arrays({"id": np.arange(rows), "weight": np.linspace(0.1, 5, rows)})
    weights = np.linspace(0.1, 5, rows)
    for given in ("weight", weights, weights.tolist(), col("weight") * 3):
        counts = np.bincount(ids_of(data.sample(5000, weights=given, replacement=True).batch(100))[0], minlength=rows)
        assert counts.sum() == 5000
        assert (abs(counts - 5000 * weights / weights.sum()) < 1).all()
    once = ids_of(data.sample(400, weights="weight").batch(100))[0]
    assert len(set(once)) == 400
    assert once == sorted(once)
    assert np.mean(once) > 600, "heavy rows come first"
    assert ids_of(data.sample(rows, weights="weight").batch(100))[0] == [*range(rows)]
    plain = ids_of(data.sample(400, seed=1).batch(100))[0]
    assert 400 < np.mean(plain) < 600
    assert plain != ids_of(data.sample(400, seed=2).batch(100))[0]


def test_heavy_rows_are_drawn_as_often_as_they_should() -> None:
    """Without replacement, of two rows the one of weight 3 is drawn first in three of four draws."""
    data = ps.from_arrays({"id": np.arange(2)})
    first = [ids_of(data.sample(1, weights=[1, 3], seed=seed).batch(1))[0][0] for seed in range(400)]
    assert 0.68 < np.mean(first) < 0.82


def test_sorting_is_stable() -> None:
    values = np.array([3, 1, 2, 1, 3, 2, 1], dtype=np.uint8)
    data = ps.from_arrays({"id": np.arange(7), "value": values, "text": [f"{value}" for value in values.tolist()]})
    for by in ("value", "text", col("value") * 1.5):
        assert ids_of(data.sort(by).batch(7)) == [[1, 3, 6, 2, 5, 0, 4]]
        assert ids_of(data.sort(by, descending=True).batch(7)) == [[0, 4, 2, 5, 1, 3, 6]]
    assert {*ids_of(data.sort("value", descending=True).take(2).shuffle(seed=0).batch(7))[0]} == {0, 4}


# States


def test_a_changed_choice_is_noticed(tmp_path: Path) -> None:
    data = whole(tmp_path)

    def state(dataset: ps.Dataset) -> Any:
        with ps.Loader(dataset.batch(4), rank=0, world_size=1) as loader:
            return json.loads(json.dumps(loader.state_dict()))

    saved = state(data.filter(col("id") > 10))
    other = data.filter(col("id") > 11).batch(4)
    with pytest.raises(
        ps.StateError,
        match=r"verb 5, filter: `picked` was 69 of 80 #.*`predicate` was \(col\('id'\) > 10\) and is \(col\('id'\) > 11\)",
    ):
        ps.Loader(other, rank=0, world_size=1).load_state_dict(saved)
    long = data.filter(col("text").is_in([f"row {one}" for one in range(40)]) & (col("id") > 3))
    with pytest.raises(ps.StateError, match="that gives another order"):
        ps.Loader(data.filter(col("id") > 3).batch(4), rank=0, world_size=1).load_state_dict(state(long))
    ps.Loader(long.batch(4), rank=0, world_size=1).load_state_dict(state(long))
    balanced = state(data.balance(col("id") % 3))
    with pytest.raises(ps.StateError, match="`seed` was 0 and is 1"):
        ps.Loader(data.balance(col("id") % 3, seed=1).batch(4), rank=0, world_size=1).load_state_dict(balanced)


# What cannot be


def of(count: int = 5) -> ps.Dataset:
    return ps.from_arrays(
        {
            "id": np.arange(count),
            "half": np.where(np.arange(count) == 2, np.nan, 0.5),
            "text": [str(one) for one in range(count)],
            "pair": np.zeros((count, 2)),
        }
    )


def forward() -> Iterator[dict[str, int]]:
    return ({"id": number} for number in range(4))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: of().filter(col("id") > 9), r"filter: \(col\('id'\) > 9\) is true for none of the 5 rows that were looked at"),
        (lambda: of().filter(col("di") > 9), r"filter: no column 'di'; there are half, id, pair, text"),
        (lambda: of().filter(col("id") + 1), r"filter: \(col\('id'\) \+ 1\) gives int64, where true or false belongs"),
        (lambda: of().filter(col("text")), r"filter: col\('text'\) gives large_string, where true or false belongs"),
        (lambda: of().filter(col("pair") > 0), r"filter: \(col\('pair'\) > 0\) gives \(2,\) values a row, where one belongs \(pair is float64\(2\)\)"),
        (lambda: of().filter(col("text") > 3), r"filter: \(col\('text'\) > 3\) cannot be computed of large_string and int: they are of two kinds"),
        (lambda: of().filter(col("id").len() > 3), r"single values have no length"),
        (lambda: of().filter("id > 3"), r"filter: 'id > 3' cannot be called; pass a function, or an expression such as penstock\.col"),
        (lambda: of().filter(col("id") > 3, 4), r"filter: 4 is passed by position"),
        (lambda: of().filter((col("id") > 1) and (col("id") < 3)), r"is an expression, which is neither true nor false; write & for and"),
        (lambda: of().filter(not col("id")), r"is an expression, which is neither true nor false"),
        (lambda: of().filter(1 < col("id") < 3), r"is an expression, which is neither true nor false"),
        (lambda: of().filter((col("id") & 3) == 2), r"& \| ~ join what is true or false; put comparisons in brackets"),
        (lambda: of().filter(7 // col("id") == 2), r"a whole number is divided by 0"),
        (lambda: of().filter(col("text") + 1 == 2), r"arithmetic is for numbers"),
        (lambda: of().filter(col("id") == None), r"None in an expression: a NoneType is no value of a column"),  # noqa: E711
        (lambda: of().filter(col("id").is_in(3)), r"is_in\(3\): pass a list of values"),
        (lambda: of().filter(col("id").is_in(["3"])), r"the column is int64, and other values are looked for"),
        (lambda: of().shuffle().filter(col("id") > 3), r"filter: chooses among the rows as their sources have them, and shuffle\(…\) stands before it; put it first: filter\(…\)\.shuffle\(…\)"),
        (lambda: of().filter(lambda batch: batch["id"] > 1).filter(col("id") > 2), r"filter: .* and filter\(function\) stands before it; put it first: filter\(…\)\.filter\(function\)"),
        (lambda: of().map(dict).sort("id"), r"sort: .* map\(…\) stands before it"),
        (lambda: of().repeat(2).balance("id"), r"balance: .* repeat\(…\) stands before it"),
        (lambda: of().batch(2).sample(2), r"sample: .* batch\(…\) stands before it"),
        (lambda: ps.mix([of(), of()]).split(SHARES), r"split: .* mix\(…\) stands before it"),
        (lambda: ps.from_iterable(forward, spool=False, samples=4).filter(col("id") > 1), r"filter: iterable is drawn in one order, and nothing of it is kept"),
        (lambda: ps.col(3), r"col\(3\): pass the name of a column"),
        (lambda: of().split({"a": 0.5, "b": 0.6}), r"split: the shares add up to 1\.1, and every row belongs to one part"),
        (lambda: of().split({"a": 1}), r"pass names and shares of at least two parts"),
        (lambda: of().split([0.5, 0.5]), r"pass names and shares of at least two parts"),
        (lambda: of().split({"a": 3, "b": 2}), r"split: 'a' has the share 3; shares are numbers above 0 and below 1, not counts"),
        (lambda: of().split(SHARES, by="id", stratify="text"), r"by= and stratify= together cannot be kept exactly"),
        (lambda: of().split(SHARES, seed=-1), r"split: seed=-1; a seed is a number from 0"),
        (lambda: of().split({"a": 0.999, "b": 0.001})["b"].batch(1), r"split: part 'b' has none of the 5 rows; give it a larger share"),
        (lambda: of().balance("half"), r"balance: col\('half'\) is missing in 1 of 5 rows, first in row 2; leave these out first, by filter"),
        (lambda: of().balance("id", mode="both"), r"balance: mode='both'; choose 'over' or 'under'"),
        (lambda: of().balance("pair"), r"balance: col\('pair'\) gives \(2,\) values a row"),
        (lambda: of().balance(3), r"balance: 3 is neither the name of a column nor an expression"),
        (lambda: of().sort("half"), r"sort: col\('half'\) is missing in 1 of 5 rows"),
        (lambda: of().sample(0), r"sample\(0\): how many rows, from 1 to"),
        (lambda: of().sample(2.5), r"sample\(2\.5\): how many rows"),
        (lambda: of().sample(6), r"sample\(6\): there are 5 rows, and without replacement none comes twice"),
        (lambda: of().skip(5).sample(2, replacement=True), r"sample\(2\): there are no rows to draw from"),
        (lambda: of().sample(2, weights=[1, 2]), r"sample: weights has the shape \(2,\), and there are 5 rows; give each row one weight"),
        (lambda: of().sample(2, weights=[1, 2, 0, 1, 1]), r"sample: weights of row 2 is 0 \(1 of 5 rows\); a weight is a number above 0"),
        (lambda: of().sample(2, weights=[1, -2, 3, 1, 1]), r"sample: weights of row 1 is -2"),
        (lambda: of().sample(2, weights=[1, 2, 3, float("nan"), 1]), r"sample: weights of row 3 is nan"),
        (lambda: of().sample(2, weights="half"), r"sample: col\('half'\) is missing in 1 of 5"),
        (lambda: of().sample(2, weights=col("id")), r"sample: col\('id'\) of row 0 is 0"),
        (lambda: of().sample(2, weights="text"), r"sample: col\('text'\) of row 0 is 0"),
        (lambda: of().sample(2, weights=["a"] * 5), r"sample: weights holds no numbers"),
    ],
)  # fmt: skip
def test_what_cannot_be(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        make()


def test_labels_of_no_class_are_refused(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.jpg").write_bytes(b"\xff\xd8")
    data = ps.read(tmp_path)
    vars(data.source)["said"]["label"][1] = 5
    with pytest.raises(ps.PlanError, match=r"balance: col\('label'\) is 5 in row 1, and there are the classes 0 … 1"):
        data.balance("label", seed=7)
