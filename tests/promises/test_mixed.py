"""mix, repeat and every keep every promise: exact shares, ranks, resuming, simulate, clear errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.order.steps.cursor import Work
from penstock.plan.nodes import Mix
from promises.test_composed import COUNTS, even, three
from support import promises
from support.cases import MemoryStorage
from support.seams import lowered_of

LARGE = {"lanes": 4}

PLANS: dict[str, Callable[[Path], ps.Dataset]] = {
    "natural": lambda folder: ps.mix(three(folder)).batch(12, **LARGE),
    "by weights": lambda folder: ps.mix(three(folder), weights=[5, 2, 1]).shuffle(seed=1, block_rows=3).batch(12, **LARGE),
    "shuffled below": lambda folder: ps.mix([one.shuffle(seed=seed, block_rows=3) for seed, one in enumerate(three(folder))], weights=[0.2, 0.5, 0.3]).batch(12, **LARGE),
    "till all had theirs": lambda folder: ps.mix(three(folder), weights=[1, 1, 2], stop="all_exhausted").shuffle(seed=3, block_rows=4).batch(12, **LARGE),
    "so many rows": lambda folder: ps.mix(three(folder), weights=[3, 2, 1], rows=40).shuffle(seed=3, mode="global").batch(8, **LARGE),
    "weights that change": lambda folder: ps.mix(three(folder), weights={0: [3, 2, 1], 2: [1, 1, 6], 7: [1, 3, 2]}, rows=40).shuffle(seed=3, block_rows=3).batch(8, **LARGE),
    "functions of each": lambda folder: ps.mix([one.map(even) for one in three(folder)]).shuffle(seed=4).batch(12, pad=True, **LARGE),
    "repeated": lambda folder: ps.concat(three(folder)).shuffle(seed=2, block_rows=4).repeat(3).batch(12, **LARGE),
    "repeated and cut": lambda folder: ps.concat(three(folder)).repeat(2).skip(5).take(60).batch(12, drop_last=True, **LARGE),
    "a mix of mixes": lambda folder: ps.mix([ps.mix(three(folder)[:2], stop="all_exhausted"), three(folder)[2].repeat(2)], weights=[0.6, 0.4]).shuffle(seed=9).batch(12, wrap=True, **LARGE),
}  # fmt: skip


@pytest.fixture(params=PLANS)
def plan(request: pytest.FixtureRequest, tmp_path: Path) -> ps.Dataset:
    return PLANS[request.param](tmp_path)


def test_rows_are_what_their_ids_say(plan: ps.Dataset) -> None:
    with ps.Loader(plan, rank=0, world_size=1) as loader:
        for epoch in range(3):
            for step, batch in enumerate(loader):
                ids = batch["id"].tolist()
                assert ids == loader.sample_ids(epoch, step).tolist()
                if "text" in batch:
                    assert batch["text"].to_pylist() == [f"row {number}" for number in ids]
                else:
                    assert batch["twice"].tolist() == [2 * number for number in ids]


def test_resume(plan: ps.Dataset) -> None:
    promises.resume_is_exact(plan)


@pytest.mark.slow
def test_elastic(plan: ps.Dataset) -> None:
    promises.ranks_make_one_batch(plan)


def test_functions_draw_anew_for_every_copy() -> None:
    """A row that is drawn again has other random numbers: any 64 bits, which a generator must take."""
    plan = ps.from_arrays({"id": np.arange(40)}).shuffle(seed=1).repeat(8)
    plan = plan.map_rows(lambda row, rng: {**row, "noise": rng.random()}).batch(40)
    with ps.Loader(plan) as loader:
        noise = np.concatenate([batch["noise"] for batch in loader])
    assert len({*noise.tolist()}) == 320


def epochs_of(dataset: ps.Dataset, epochs: int) -> list[list[int]]:
    with ps.Loader(dataset, rank=0, world_size=1) as loader:
        return [[number for batch in loader for number in batch["id"].tolist()] for _ in range(epochs)]


def test_the_first_that_is_exhausted_ends_an_epoch(tmp_path: Path) -> None:
    plan = ps.mix(three(tmp_path), weights=[1, 2, 1]).shuffle(seed=0).batch(4, lanes=2)
    first, second = epochs_of(plan, 2)
    assert len(set(first)) == len(first)
    assert first != second
    shares = Counter(int(np.searchsorted(np.cumsum(COUNTS), number, side="right")) for number in first)
    assert abs(shares[1] - 2 * shares[0]) <= 8
    assert min(COUNTS[number] - shares[number] for number in range(3)) <= 4, "one of them is nearly through"


def test_nothing_is_lost_over_epochs_of_so_many_rows(tmp_path: Path) -> None:
    """What an epoch leaves, the next one takes: in as many rows as a dataset has, each comes once."""
    one, two = (ps.from_arrays({"id": np.arange(first, first + 48)}) for first in (0, 48))
    plan = ps.mix([one, two], rows=32).shuffle(seed=5).batch(8, lanes=4)
    found = [number for epoch in epochs_of(plan, 3) for number in epoch]
    assert sorted(found) == [*range(96)]
    again = [number for epoch in epochs_of(plan, 6)[3:] for number in epoch]
    assert sorted(again) == [*range(96)]
    assert again != found


@pytest.mark.parametrize("before", [False, True])
def test_copies_are_augmented_anew(before: bool) -> None:
    """Also behind a dataset that comes once."""
    images = np.random.default_rng(0).integers(0, 256, (8, 16, 16, 3), dtype=np.uint8)
    data = ps.from_arrays({"image": images, "id": np.arange(8)})
    ops = [ps.image.RandomResizedCrop(8)]
    once = ps.from_arrays({"image": images, "id": np.arange(8, 16)}).shuffle(seed=1)
    copies = ps.concat([once, data.repeat(2)]) if before else data.repeat(2)
    with ps.Loader(copies.transform(image=ops).batch(4, lanes=4), rank=0, world_size=1) as loader:
        batches = list(loader)
    by_id: dict[int, list[bytes]] = {}
    for batch in batches:
        for number, image in zip(batch["id"].tolist(), batch["image"], strict=True):
            by_id.setdefault(number, []).append(image.tobytes())
    assert all(len(set(drawn)) == (2 if number < 8 else 1) for number, drawn in by_id.items())
    assert len(by_id) == (16 if before else 8)


STOPS: dict[str, Callable[[list[ps.Dataset]], ps.Dataset]] = {
    "first": lambda some: ps.mix(some, weights=[5, 3, 2]).shuffle(seed=1, block_rows=10),
    "all": lambda some: ps.mix(some, weights=[5, 3, 2], stop="all_exhausted").shuffle(seed=1, block_rows=10),
    "rows": lambda some: ps.mix(some, weights=[5, 3, 2], rows=4800).shuffle(seed=1, block_rows=10),
    "changing": lambda some: ps.mix(some, weights={0: [5, 3, 2], 40: [1, 1, 1], 200: [1, 7, 2]}, rows=4800).shuffle(
        seed=1, block_rows=10
    ),
    "repeat": lambda some: ps.concat(some).shuffle(seed=1, block_rows=10).repeat(3),
}


@pytest.mark.parametrize("name", STOPS)
def test_bytes_are_read_once_a_round_and_few_are_held(name: str) -> None:
    """As much is read as rows are drawn, and open windows take no more than the loader says, however long the epoch."""
    lines = [[f'{{"id": {1000 * part + row}, "text": "{"x" * 40}"}}\n' for row in range(800)] for part in range(3)]
    storages = [MemoryStorage({f"data/{part}.jsonl": "".join(some).encode()}) for part, some in enumerate(lines)]
    plan = STOPS[name]([ps.read("data/", format="jsonl", storage=storage) for storage in storages])
    with ps.Loader(plan.batch(16, lanes=4), rank=0, world_size=1) as loader:
        lowered, held = lowered_of(loader), []
        for storage in storages:
            storage.reads.clear()
        for step in range(len(loader)):
            lowered.stages[0].work(Work(0, step, 1))
            held.append(lowered.budget.kept_bytes)
    read = sum(size for storage in storages for _, _, size in storage.reads)
    drawn = len(loader) * 16 * sum(len(line) for some in lines for line in some) / 2400
    assert 0.95 * drawn <= read <= 1.05 * drawn
    assert 0 < max(held) <= lowered.window_bytes


def test_open_windows_of_all_datasets_count(tmp_path: Path) -> None:
    """A mix holds blocks of every dataset in every lane, and says so where there is less memory."""
    (tmp_path / "x.jsonl").write_text("".join(f'{{"id": {number}}}\n' for number in range(400)))
    needed = []
    for parts in (1, 3):
        plan = (
            ps.mix([ps.read(tmp_path / "x.jsonl") for _ in range(parts)])
            .shuffle(seed=1, block_rows=10)
            .batch(8, lanes=4)
        )
        with ps.Loader(plan, rank=0, world_size=1) as loader:
            needed.append(lowered_of(loader).window_bytes)
    assert needed[1] == 3 * needed[0] > 0


def test_requests_are_simulated(tmp_path: Path) -> None:
    plan = ps.mix(three(tmp_path)[1:], weights=[2, 1], stop="all_exhausted").shuffle(seed=1).batch(12, lanes=4)
    simulated = plan.simulate(epochs=2)
    with ps.Loader(plan, rank=0, world_size=1) as loader:
        assert simulated.steps_per_epoch == len(loader)
    assert simulated.nodes[0].bytes > 0
    assert "mix inputs=2 weights=(2, 1) stop=all_exhausted" in plan.explain()


@pytest.mark.parametrize(
    ("weights", "quotas"),
    [
        ([0.7, 0.3], (7, 3)),
        ([1 / 3, 2 / 3], (1, 2)),
        ([0.1 + 0.2, 0.7], (3, 7)),
        ([2, 4, 6], (1, 2, 3)),
        ([np.float32(0.5), np.int64(1)], (1, 2)),
        ([1e6, 3e6], (1, 3)),
    ],
)
def test_weights_are_what_they_look_like(weights: list[float], quotas: tuple[int, ...]) -> None:
    node = ps.mix([of(9) for _ in weights], weights=weights).root
    assert isinstance(node, Mix)
    assert node.quotas == quotas


def test_odd_weights_are_near() -> None:
    weights = [0.123456789123, 3.14159265358979, 2.71828182845904]
    node = ps.mix([of(9) for _ in weights], weights=weights).root
    assert isinstance(node, Mix)
    assert np.allclose(np.array(node.quotas) / sum(node.quotas), np.array(weights) / sum(weights), rtol=1e-4)


def of(count: int) -> ps.Dataset:
    return ps.from_arrays({"id": np.arange(count)})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ps.mix([]), r"mix: no datasets; pass a list"),
        (lambda: ps.mix([of(3), of(4)], weights=[1]), r"mix: 1 weights for 2 datasets; give one each"),
        (lambda: ps.mix([of(3), of(4)], weights=[1, 0]), r"mix: weights\[1\]=0; a weight is a number above 0, so leave"),
        (lambda: ps.mix([of(3), of(4)], weights=[1, float("nan")]), r"mix: weights\[1\]=nan"),
        (lambda: ps.mix([of(3), of(4)], weights=["a", 1]), r"mix: weights\[0\]='a'"),
        (lambda: ps.mix([of(3), of(4)], stop="never"), r"mix: stop='never'; choose 'first_exhausted' or 'all_exhausted'"),
        (lambda: ps.mix([of(3), of(4)], rows=0), r"mix: rows=0; an epoch has at least one row"),
        (lambda: ps.mix([of(30), of(40)], rows=20).batch(8, lanes=8), r"mix: rows=20 is no whole number of batches of 8 rows; it would be with 16 or 24"),
        (lambda: ps.mix([of(3), of(40)]).batch(8, lanes=8), r"mix: dataset 0 has 3 rows, fewer than the 8 lanes"),
        (lambda: ps.mix([of(3).batch(1), of(4)]), r"mix: dataset 0 has a batch already; write mix\(\[…\]\)\.batch"),
        (lambda: ps.mix([of(3), ps.from_arrays({"x": [1]})]), r"mix: dataset 0 \(memory\) has a column 'id', and dataset 1"),
        (lambda: ps.mix([of(3), of(4)]).take(2).shuffle(), r"shuffle: take stands between it and mix, whose datasets it shuffles"),
        (lambda: ps.mix([of(30), of(40)]).shard([44, 44]), r"shard: nodes agree on rows before they have lanes.*write mix\(…, rows=…\)"),
        (lambda: ps.mix([of(30), of(40)], weights=[1e-9, 1]), r"mix: weights\[0\]=1e-09 is less than a twenty-thousandth"),
        (lambda: ps.mix([of(3), 4]), r"mix: entry 1 is int; pass a list of datasets"),
        (lambda: ps.mix([of(3)], [1]), r"mix: \[1\] is passed by position"),
        (lambda: of(3).repeat(0), r"repeat\(0\): how often, from 1 to"),
        (lambda: of(3).batch(1).repeat(2), r"repeat: must come before batch"),
        (lambda: of(3).every(0), r"every\(0\): a distance in rows, from 1 to"),
        (lambda: of(3).shuffle().every(2).batch(1), r"every: must come before shuffle"),
    ],
)  # fmt: skip
def test_what_cannot_be(make: Callable[[], ps.Dataset], message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        make()
