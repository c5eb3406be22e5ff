"""batch_tokens through a Loader: the budget on every rank, every promise of an order, what explain says, clear errors."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from support.promises import (
    any_step_can_be_made,
    epochs_differ_and_seeds_repeat,
    kept_batches_stay,
    ranks_make_one_batch,
    ranks_share_every_epoch,
    resume_is_exact,
    worlds,
)

ROWS = 203
LENGTHS = np.random.default_rng(0).integers(0, 40, ROWS)


def rows() -> ps.Dataset:
    return ps.from_arrays({"id": np.arange(ROWS)})


def table() -> pa.Table:
    tokens = [[number] * length for number, length in enumerate(LENGTHS.tolist())]
    return pa.table({"id": np.arange(ROWS), "tokens": pa.array(tokens, pa.list_(pa.int32()))})


def ragged() -> ps.Dataset:
    tokens = pa.array([[number] * length for number, length in enumerate(LENGTHS.tolist())], pa.large_list(pa.int32()))
    return ps.from_arrays({"id": np.arange(ROWS), "tokens": tokens})


def lines(folder: Path) -> ps.Dataset:
    (folder / "a.jsonl").write_text("".join(json.dumps({"id": number}) + "\n" for number in range(ROWS)))
    return ps.read(folder / "a.jsonl")


def parquet(folder: Path) -> ps.Dataset:
    pq.write_table(table(), folder / "a.parquet", row_group_size=40)
    return ps.read(folder / "a.parquet")


def zipped(folder: Path) -> ps.Dataset:
    return ps.zip([lines(folder), ps.from_arrays({"tokens": table()["tokens"].to_pylist()})])


def tokens(data: ps.Dataset, **more: Any) -> ps.Dataset:
    return data.batch_tokens(**{"max_tokens": 400, "by": LENGTHS, "lanes": 4, **more})


PLANS: dict[str, Any] = {
    # Without what is padded, of which each rank's part is as long as its own longest row.
    "shuffled": lambda _: tokens(rows().shuffle(seed=1)),
    "natural": lambda _: tokens(rows(), multiple_of=8),
    "plain sum": lambda _: tokens(ragged().shuffle(seed=1), padded=False),
    "function": lambda _: tokens(rows().shuffle(seed=1).map(dict)),
    "records": lambda folder: tokens(lines(folder).shuffle(seed=1), lanes=8, max_tokens=640),
    "blocks": lambda folder: tokens(parquet(folder).shuffle(seed=1), by="tokens", padded=False),
    "zipped": lambda folder: tokens(zipped(folder).shuffle(seed=1), lanes=4, padded=False, max_tokens=500),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_it_keeps_the_promises(name: str, tmp_path: Path) -> None:
    plan = PLANS[name](tmp_path)
    assert len(worlds(plan)) > 1
    ranks_make_one_batch(plan)
    any_step_can_be_made(plan)
    kept_batches_stay(plan)
    ranks_share_every_epoch(plan, "id")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shuffled", "natural", "plain sum"])
def test_it_resumes_and_repeats(name: str) -> None:
    plan = PLANS[name](None)
    resume_is_exact(plan)
    epochs_differ_and_seeds_repeat(plan, shuffled=name != "natural")


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_every_rank_has_at_most_its_part(world_size: int, padded: bool) -> None:
    plan = tokens(ragged().shuffle(seed=1), padded=padded, multiple_of=8 if padded else None)
    loaders = [ps.Loader(plan, rank=rank, world_size=world_size) for rank in range(world_size)]
    ids, rows_of_steps = [], []
    for batches in zip(*loaders, strict=True):
        counts = [len(batch["id"]) for batch in batches]
        rows_of_steps.append(sum(counts))
        assert max(counts) - min(counts) <= (len(rows_of_steps) == len(loaders[0]))
        for batch in batches:
            ids += batch["id"].tolist()
            if not padded:
                assert len(batch["tokens"].values) <= 400 // world_size
                continue
            assert batch["tokens"].size <= 400 // world_size
            assert batch["tokens"].shape[1] % 8 == 0
            assert batch["tokens_lengths"].tolist() == LENGTHS[batch["id"]].tolist()
            assert batch["tokens"].sum(axis=1).tolist() == (LENGTHS * np.arange(ROWS))[batch["id"]].tolist()
    assert sorted(ids) == list(range(ROWS))
    assert len({*rows_of_steps}) > 3
    for loader in loaders:
        loader.close()


def test_a_run_goes_on_with_other_ranks_in_mid_epoch() -> None:
    plan = tokens(ragged().shuffle(seed=1))

    def walk(world: int, state: Any, steps: int) -> tuple[list[list[int]], Any]:
        loaders = [ps.Loader(plan, rank=rank, world_size=world) for rank in range(world)]
        for loader in loaders:
            if state is not None:
                loader.load_state_dict(json.loads(state))
        passes = [iter(loader) for loader in loaders]
        found = [[row for one in passes for row in next(one)["id"].tolist()] for _ in range(steps)]
        (state,) = {json.dumps(loader.state_dict()) for loader in loaders}
        for loader in loaders:
            loader.close()
        return found, state

    wanted, _ = walk(1, None, 12)
    first, state = walk(2, None, 5)
    then, state = walk(4, state, 4)
    last, _ = walk(1, state, 3)
    assert first + then + last == wanted
    assert len(state) < 4096


def test_lengths_of_a_column_or_an_expression() -> None:
    plans = [
        tokens(ragged().shuffle(seed=1)),
        tokens(ragged().shuffle(seed=1), by="tokens"),
        tokens(ragged().shuffle(seed=1).map(dict), by=ps.col("tokens").len()),
        tokens(ragged().shuffle(seed=1), by=LENGTHS.astype(np.float32).tolist()),
    ]
    found = []
    for plan in plans:
        with ps.Loader(plan) as loader:
            found.append([batch["id"].tolist() for batch in loader])
    assert found[1:] == found[:1] * 3


def test_a_state_of_another_budget_is_refused() -> None:
    with ps.Loader(tokens(ragged().shuffle(seed=1))) as loader:
        state = loader.state_dict()
    others = (
        tokens(ragged().shuffle(seed=1), max_tokens=404),
        tokens(ragged().shuffle(seed=1), fill=0.8),
        tokens(ragged().shuffle(seed=1), by=LENGTHS + (LENGTHS == 7)),
        ragged().shuffle(seed=1).batch_padded(8),
    )
    for other in others:
        with ps.Loader(other) as loader, pytest.raises(ps.StateError, match=r"another plan.*another order"):
            loader.load_state_dict(state)


def test_what_explain_and_simulate_say() -> None:
    plan = tokens(ragged().shuffle(seed=1))
    words = plan.explain(world_size=2)
    assert "batch_tokens max_tokens=400" in words
    assert "ranks: 2 with up to 200 tokens each" in words
    assert "ranks: any number that divides 4" in plan.explain()
    figures = re.search(
        r"(\d+) to (\d+) rows and up to (\d+) tokens a step \(at most 400, of which ([\d.]+)% are used\); ([\d.]+)% are no padding; "
        r"of 2 ranks, the one with the most tokens has ([\d.]+)% more than the mean",
        words,
    )
    assert figures is not None
    with ps.Loader(plan, rank=0, world_size=1) as loader:
        ids = [loader.sample_ids(0, step) for step in range(len(loader))]
        assert f"steps of up to {loader.batch_size} rows" in repr(loader)
    with ps.Loader(plan, rank=0, world_size=2) as one, ps.Loader(plan, rank=1, world_size=2) as other:
        steps = [[LENGTHS[loader.sample_ids(0, step)] for loader in (one, other)] for step in range(len(one))]
    counted = np.array([[max(1, some.max()) * len(some) for some in ranks] for ranks in steps])
    real = sum(int(some.sum()) for ranks in steps for some in ranks)
    assert [int(figures[1]), int(figures[2])] == [min(map(len, ids)), max(map(len, ids))]
    assert int(figures[3]) == counted.sum(axis=1).max()
    assert float(figures[4]) == round(100 * counted.sum() / (400 * len(ids)), 1)
    assert float(figures[5]) == round(100 * real / counted.sum(), 1)
    assert float(figures[6]) == round(100 * ((counted.max(axis=1) / counted.mean(axis=1)).mean() - 1), 1)
    assert plan.simulate(world_size=2).steps_per_epoch == len(ids)


def test_what_is_read_of_files_is_simulated(tmp_path: Path) -> None:
    plan = tokens(lines(tmp_path).shuffle(seed=1))
    (node,) = plan.simulate(world_size=2).nodes
    whole = sum(len(json.dumps({"id": number})) for number in range(ROWS))
    assert node.bytes >= whole
    first, second = plan.simulate(world_size=2, epochs=2, cache="1MB").nodes
    assert first.bytes >= whole
    assert second.bytes == 0
    assert second.cache_bytes >= whole


def test_rows_that_are_chosen_before_have_their_lengths() -> None:
    plan = tokens(ragged().take(100).shuffle(seed=1), by=LENGTHS[:100])
    with ps.Loader(plan) as loader:
        ids = [batch["id"] for batch in loader]
    assert sorted(np.concatenate(ids).tolist()) == list(range(100))


def test_drop_last_leaves_out_less_than_a_step() -> None:
    plan = tokens(ragged().shuffle(seed=1), drop_last=True)
    loaders = [ps.Loader(plan, rank=rank, world_size=4) for rank in range(4)]
    for batches in zip(*loaders, strict=True):
        assert len({len(batch["id"]) for batch in batches}) == 1
    taken = sum(len(loader.sample_ids(0, step)) for loader in loaders for step in range(len(loader)))
    assert ROWS - 40 < taken <= ROWS
    for loader in loaders:
        loader.close()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tokens(ragged(), max_tokens=0), "max_tokens=0; at least 1"),
        (lambda: tokens(ragged(), max_tokens=-5), "max_tokens=-5"),
        (lambda: tokens(ragged(), max_tokens=1e4), r"max_tokens=10000\.0; .*a whole number"),
        (lambda: tokens(ragged(), max_tokens=True), "max_tokens=True; at"),
        (lambda: tokens(ragged(), max_tokens=None), "max_tokens=None"),
        (lambda: tokens(ragged(), lanes=0), "lanes=0; at least 1"),
        (lambda: tokens(ragged(), fill=0), "fill=0; it is a share"),
        (lambda: tokens(ragged(), fill=1.5), r"fill=1\.5"),
        (lambda: ragged().batch_tokens(400, LENGTHS, by=LENGTHS), "is passed by position"),
        (lambda: tokens(ragged(), by="length"), "no column 'length'"),
        (lambda: tokens(ragged(), by=LENGTHS[None]), "by='ndarray' is no length for each row"),
        (lambda: tokens(ragged(), by=[[1], [2, 3]]), "by='list' is no length for each row"),
        (lambda: tokens(ragged(), by=LENGTHS[1:]), "by= has 202 numbers, and there are 203 rows"),
        (lambda: tokens(ragged(), by=LENGTHS - 1), r"row \d+ has the length -1 \(\d+ such rows of 203\)"),
        (lambda: tokens(ragged(), by=[1.0, 2.5]), r"row 1 has the length 2\.5; lengths are whole numbers"),
        (lambda: tokens(ragged(), by=[1.0, float("nan")]), "row 1 has the length nan"),
        (lambda: tokens(ragged(), by=[1.0, float("inf")]), "row 1 has the length inf"),
        (
            lambda: tokens(ragged(), by=np.array([1, 2**63], dtype=np.uint64)),
            "row 1 has the length 9223372036854775808",
        ),
        (lambda: tokens(rows().take(0), by=[]), "there are no rows"),
        (
            lambda: tokens(ragged(), max_tokens=100),
            rf"row {LENGTHS.argmax()} counts 39 tokens, and max_tokens=100 over 4 lanes is 25 for each; give at least max_tokens=156",
        ),
        (
            lambda: tokens(ragged(), max_tokens=30, lanes=None),
            rf"row {LENGTHS.argmax()} counts 39 tokens, and max_tokens=30; give at least max_tokens=39, or leave long rows",
        ),
        (lambda: tokens(ragged(), max_tokens=156, multiple_of=8), r"counts 40 tokens.* at least max_tokens=160"),
        (lambda: tokens(ragged(), multiple_of=0), "multiple_of=0"),
        (lambda: tokens(ragged(), padded=False, multiple_of=8), "say how rows are padded"),
        (lambda: tokens(ragged(), columns=["id"]), "column 'id' is int64, and only lists"),
        (lambda: tokens(ragged().take(3), by=LENGTHS[:3], drop_last=True), "do not fill a step of 400 tokens"),
        (
            lambda: tokens(ragged().shuffle(seed=0).take(203)),
            r"batch_tokens: what chooses rows must come before shuffle",
        ),
        (lambda: tokens(ragged().repeat(2)), "batch_tokens: cannot follow repeat"),
        (lambda: tokens(ps.mix([ragged(), ragged()])), "cannot follow mix"),
        (lambda: tokens(ragged().filter(lambda batch: batch["id"] > 1)), "cannot follow filter"),
        (lambda: tokens(ragged().batch(4)), "the plan has a batch already"),
        (lambda: tokens(ragged()).batch(4), "the plan has a batch already"),
        (lambda: tokens(ragged()).shuffle(seed=0), "must come before batch"),
        (
            lambda: ps.Loader(tokens(ragged()), rank=0, world_size=3),
            "world_size=3 does not divide the 4 lanes of batch_tokens.*2 or 4 ranks",
        ),
        (
            lambda: ps.Loader(tokens(ragged().take(3), by=LENGTHS[:3]), rank=0, world_size=4),
            "last global batch has 3 rows, too few for 4",
        ),
        (
            lambda: ps.from_iterable(lambda: iter([{"id": 1}] * 3), spool=False, samples=3).batch_tokens(
                max_tokens=9, by=[1, 2, 3]
            ),
            "batch_tokens: this source can only be read in one order",
        ),
    ],
)
def test_plans_that_cannot_be(make: Any, message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        make()
