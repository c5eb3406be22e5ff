"""Bucketed batches through a Loader: one bucket a step on all ranks, every promise of an order, clear errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from support.promises import (
    any_step_can_be_made,
    epochs_differ_and_seeds_repeat,
    kept_batches_stay,
    ranks_make_one_batch,
    ranks_share_every_epoch,
    resume_is_exact,
)

pytestmark = pytest.mark.slow

ROWS = 203
LENGTHS = np.random.default_rng(0).integers(1, 40, ROWS)
EDGES = [10, 20, 30]
BUCKETS = np.searchsorted(EDGES, LENGTHS, side="right")


def rows() -> ps.Dataset:
    return ps.from_arrays({"id": np.arange(ROWS)})


def ragged() -> ps.Dataset:
    tokens = pa.array([[number] * length for number, length in enumerate(LENGTHS.tolist())], pa.large_list(pa.int32()))
    return ps.from_arrays({"id": np.arange(ROWS), "tokens": tokens})


def lines(folder: Path) -> ps.Dataset:
    (folder / "a.jsonl").write_text("".join(json.dumps({"id": number}) + "\n" for number in range(ROWS)))
    return ps.read(folder / "a.jsonl")


PLANS: dict[str, Any] = {
    "shuffled": lambda _: rows().shuffle(seed=1).batch_bucketed(8, by=LENGTHS, boundaries=EDGES),
    "natural": lambda _: rows().batch_bucketed(8, by=LENGTHS, boundaries=EDGES, lanes=4),
    "dropped": lambda _: rows().shuffle(seed=1).batch_bucketed(8, by=LENGTHS, quantiles=4, drop_last=True, lanes=4),
    "padded": lambda _: rows().shuffle(seed=1).map(dict).batch_bucketed(8, by=LENGTHS, boundaries=EDGES, pad=True),
    "wrapped": lambda _: rows().shuffle(seed=1).batch_bucketed(8, by=LENGTHS, boundaries=EDGES, wrap=True, lanes=2),
    "records": lambda folder: lines(folder).shuffle(seed=1).batch_bucketed(8, by=LENGTHS, boundaries=EDGES),
}


@pytest.fixture(params=PLANS)
def plan(request: pytest.FixtureRequest, tmp_path: Path) -> ps.Dataset:
    made: ps.Dataset = PLANS[request.param](tmp_path)
    return made


def test_it_keeps_the_promises(plan: ps.Dataset, request: pytest.FixtureRequest) -> None:
    ranks_make_one_batch(plan)
    any_step_can_be_made(plan)
    kept_batches_stay(plan)
    if "dropped" not in request.node.name:  # what is left over of each bucket is dropped there, not of the whole
        ranks_share_every_epoch(plan, "id")


@pytest.mark.parametrize("name", ["shuffled", "natural"])
def test_it_resumes_and_repeats(name: str) -> None:
    plan = PLANS[name](None)
    resume_is_exact(plan)
    epochs_differ_and_seeds_repeat(plan, shuffled=name == "shuffled")


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_all_ranks_have_one_bucket_in_a_step(world_size: int) -> None:
    plan = ragged().shuffle(seed=1).batch_bucketed(16, by=LENGTHS, boundaries=EDGES, multiple_of=10, drop_last=True)
    loaders = [ps.Loader(plan, rank=rank, world_size=world_size) for rank in range(world_size)]
    met, ids = [], []
    for batches in zip(*loaders, strict=True):
        found = {int(bucket) for batch in batches for bucket in BUCKETS[batch["id"]]}
        assert len(found) == 1
        for batch in batches:
            assert batch["tokens"].shape[1] <= (max(found) + 1) * 10
            assert batch["tokens_lengths"].tolist() == LENGTHS[batch["id"]].tolist()
            ids += batch["id"].tolist()
        met.append(found.pop())
    assert {*met} == {0, 1, 2, 3}
    assert met != sorted(met)
    assert len({*ids}) == len(ids)
    for loader in loaders:
        loader.close()


def test_quantiles_have_equally_many_rows() -> None:
    with ps.Loader(rows().batch_bucketed(8, by=np.arange(ROWS), quantiles=5, drop_last=True, lanes=1)) as loader:
        firsts = [int(batch["id"].min()) for batch in loader]
    assert firsts == [first + 8 * step for first in (0, 40, 81, 121, 162) for step in range(5)]


def test_rows_that_are_chosen_before_have_their_numbers() -> None:
    plan = rows().take(100).shuffle(seed=1).batch_bucketed(4, by=LENGTHS[:100], boundaries=EDGES, drop_last=True)
    with ps.Loader(plan) as loader:
        for batch in loader:
            assert len({*BUCKETS[batch["id"]].tolist()}) == 1
            assert batch["id"].max() < 100


def test_the_lengths_of_datasets_that_were_joined() -> None:
    """A column that says which dataset a row came of changes no row: lengths are those of the rows below it."""
    both = ps.concat([ragged(), ragged().take(50)], source="source")
    data = both.batch_bucketed(8, by="tokens", boundaries=EDGES, columns=["tokens"])
    with ps.Loader(data, rank=0, world_size=1) as loader:
        found = [np.searchsorted(EDGES, batch["tokens_lengths"], side="right") for batch in loader]
        rows = sum(map(len, found))
    assert rows == ROWS + 50
    assert sum(len({*buckets.tolist()}) > 1 for buckets in found) < len(EDGES) + 1


def test_a_state_of_other_buckets_is_refused() -> None:
    with ps.Loader(rows().shuffle(seed=1).batch_bucketed(8, by=LENGTHS, boundaries=EDGES)) as loader:
        state = loader.state_dict()
    with (
        ps.Loader(rows().shuffle(seed=1).batch_bucketed(8, by=LENGTHS, boundaries=[10, 20, 31])) as loader,
        pytest.raises(ps.StateError, match=r"another plan.*another order"),
    ):
        loader.load_state_dict(state)


def test_the_lengths_of_a_column_are_looked_up() -> None:
    """Below a shuffle and functions, which keep all rows."""
    by_array = ragged().shuffle(seed=1).batch_bucketed(8, by=LENGTHS, boundaries=EDGES)
    plans = [
        ragged().shuffle(seed=1).batch_bucketed(8, by="tokens", boundaries=EDGES),
        ragged().shuffle(seed=1).map(dict).batch_bucketed(8, by=ps.col("tokens").len(), boundaries=EDGES),
        ps.from_arrays({"id": np.arange(ROWS), "length": LENGTHS})
        .shuffle(seed=1)
        .batch_bucketed(8, by="length", boundaries=EDGES),
    ]
    with ps.Loader(by_array) as loader:
        wanted = [batch["id"].tolist() for batch in loader]
    for plan in plans:
        with ps.Loader(plan) as loader:
            assert [batch["id"].tolist() for batch in loader] == wanted


def bucketed(data: ps.Dataset, **more: Any) -> ps.Dataset:
    return data.batch_bucketed(8, **{"by": LENGTHS, "boundaries": EDGES, **more})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bucketed(rows(), by="length"), "no column 'length'"),
        (lambda: bucketed(rows(), by=LENGTHS[None]), "by='ndarray' is no number for each row"),
        (lambda: bucketed(rows(), by=[1.0, float("nan")]), r"by\[1\] is nan"),
        (lambda: bucketed(rows(), by=LENGTHS[1:]), "by= has 202 numbers, and there are 203 rows"),
        (lambda: bucketed(rows(), boundaries=None), "give either boundaries"),
        (lambda: bucketed(rows(), quantiles=3), "give either boundaries"),
        (lambda: bucketed(rows(), boundaries=[3, 3]), r"boundaries=\[3, 3\]; pass up to 1,023 numbers that rise"),
        (lambda: bucketed(rows(), boundaries=[]), r"boundaries=\[\]"),
        (lambda: bucketed(rows(), boundaries=[3, float("nan"), 4]), r"boundaries=\[3, nan, 4\]"),
        (lambda: bucketed(rows(), boundaries=[[1], [2, 3]]), r"boundaries=\[\[1\], \[2, 3\]\]"),
        (lambda: bucketed(rows(), by=[[1], [2, 3]]), "by='list' is no number for each row"),
        (lambda: bucketed(rows(), boundaries=None, quantiles=1), "quantiles=1; it is a number of buckets, from 2"),
        (lambda: rows().batch_bucketed(1_000, by=LENGTHS, boundaries=EDGES), "none of the 4 buckets has rows for a"),
        (lambda: bucketed(rows().shuffle(seed=0).take(203)), r"must come before shuffle"),
        (lambda: bucketed(rows().repeat(2)), "cannot follow repeat"),
        (lambda: bucketed(ps.mix([rows(), rows()])), "cannot follow mix"),
        (lambda: bucketed(rows().filter(lambda batch: batch["id"] > 1)), "cannot follow filter"),
        (lambda: bucketed(rows().batch(4)), "the plan has a batch already"),
        (lambda: bucketed(rows()).shuffle(seed=0), "must come before batch"),
    ],
)
def test_plans_that_cannot_be(make: Any, message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        make()
