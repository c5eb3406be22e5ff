"""Padded batches through a Loader: on any number of ranks, resumed, in NumPy and PyTorch, after functions and joined sources."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import penstock as ps
from support.promises import (
    any_step_can_be_made,
    epochs_differ_and_seeds_repeat,
    kept_batches_stay,
    ranks_make_one_batch,
    resume_is_exact,
)

pytestmark = pytest.mark.slow

ROWS = 46


def row_of(number: int) -> list[int]:
    """Between 0 and 12 tokens, which say whose they are."""
    return [number * 100 + token for token in range(number * 7 % 13)]


def ragged(first: int = 0, rows: int = ROWS) -> ps.Dataset:
    numbers = range(first, first + rows)
    return ps.from_arrays(
        {
            "id": np.array(numbers),
            "tokens": pa.array([row_of(number) for number in numbers], pa.large_list(pa.int32())),
            "boxes": pa.array(
                [[[number, 1.5]] * (number % 3) for number in numbers], pa.large_list(pa.list_(pa.float32(), 2))
            ),
            "name": [f"row {number}" for number in numbers],
        }
    )


def check(batch: Any, multiple_of: int = 1, length: int | None = None, padding: int = -1) -> None:
    """A batch of `ragged` holds what its ids say."""
    ids = np.asarray(batch["id"]).tolist()
    rows = [row_of(number) for number in ids]
    wide = length or -(-max(map(len, rows), default=0) // multiple_of) * multiple_of
    assert np.asarray(batch["tokens"]).tolist() == [(row + [padding] * wide)[:wide] for row in rows]
    kept = [min(len(row), wide) for row in rows]
    assert np.asarray(batch["tokens_lengths"]).tolist() == kept
    assert np.asarray(batch["tokens_mask"]).tolist() == [[place < count for place in range(wide)] for count in kept]
    assert np.asarray(batch["boxes"]).shape == (
        len(ids),
        length or max((number % 3 for number in ids), default=0),
        2,
    ) or (multiple_of > 1)
    assert batch["name"].to_pylist() == [f"row {number}" for number in ids]


PLANS = {
    "longest": ragged().shuffle(seed=1).batch_padded(8, padding_value={"tokens": -1}),
    "multiple": ragged().shuffle(seed=1).batch_padded(8, multiple_of=8, padding_value=-1, drop_last=True),
    "length": ragged().shuffle(seed=1).batch_padded(8, length=12, padding_value=-1, wrap=True),
    "truncated": ragged().batch_padded(8, length=5, truncate=True, padding_value=-1, pad=True),
    "mapped": ragged().shuffle(seed=1).map(dict).batch_padded(8, length=12, padding_value=-1),
    "joined": ps.mix([ragged(0, 20).map(dict), ragged(20, 21)], weights=[1, 2])
    .shuffle(seed=1)
    .batch_padded(8, length=12),
}
each = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())


@each
def test_batches_resume_and_repeat(plan: ps.Dataset) -> None:
    resume_is_exact(plan)
    any_step_can_be_made(plan)
    kept_batches_stay(plan)


@pytest.mark.parametrize("name", ["longest", "length", "mapped"])
def test_batches_do_not_depend_on_prefetch_and_threads(name: str) -> None:
    epochs_differ_and_seeds_repeat(PLANS[name], shuffled=True)


@pytest.mark.parametrize("name", ["length", "truncated", "mapped", "joined"])
def test_one_length_is_the_same_on_all_ranks(name: str) -> None:
    ranks_make_one_batch(PLANS[name])


@pytest.mark.parametrize("to", ["numpy", "torch"])
@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_each_rank_pads_to_its_longest(world_size: int, to: Any) -> None:
    for plan, multiple_of in ((PLANS["longest"], 1), (PLANS["multiple"], 8)):
        met: list[int] = []
        for rank in range(world_size):
            with ps.Loader(plan, to=to, rank=rank, world_size=world_size) as loader:
                for batch in loader:
                    check(batch, multiple_of=multiple_of)
                    assert isinstance(batch["tokens"], torch.Tensor if to == "torch" else np.ndarray)
                    met += np.asarray(batch["id"]).tolist()
        assert sorted(met) == list(range(ROWS)) or multiple_of == 8


def test_a_state_goes_on_with_other_ranks() -> None:
    plan = PLANS["multiple"]
    with ps.Loader(plan) as loader:
        passing = iter(loader)
        next(passing)
        state = json.dumps(loader.state_dict())
        wanted = np.asarray(next(passing)["id"]).tolist()
    found: list[int] = []
    for rank in range(4):
        with ps.Loader(plan, rank=rank, world_size=4) as loader:
            loader.load_state_dict(json.loads(state))
            batch = next(iter(loader))
            check(batch, multiple_of=8)
            found += batch["id"].tolist()
    assert found == wanted


def test_short_steps_made_together_have_one_length() -> None:
    with ps.Loader(ragged().batch_padded(2, length=12, padding_value=-1)) as loader:
        for batch in loader:
            check(batch, length=12)


def test_a_long_row_is_named() -> None:
    with (
        ps.Loader(ragged().batch_padded(8, length=11)) as loader,
        pytest.raises(
            ps.DataError, match=r"sample 11: column 'tokens' has 12 values, and rows are padded to 11; pass"
        ) as error,
    ):
        list(loader)
    assert error.value.sample == 11


def test_a_function_sees_what_is_padded_and_may_make_what_is() -> None:
    def make(batch: dict[str, Any]) -> dict[str, Any]:
        return {"id": batch["id"], "tokens": batch["tokens"], "more": batch["tokens"]}

    def see(batch: dict[str, Any]) -> dict[str, Any]:
        return {"sum": batch["more"].sum(1), "id": batch["id"]}

    with ps.Loader(ragged().map(make).batch_padded(8).map(see)) as loader:
        for batch in loader:
            assert batch["sum"].tolist() == [sum(row_of(number)) for number in batch["id"].tolist()]


def test_a_function_that_makes_no_such_column() -> None:
    with (
        ps.Loader(ragged().map(lambda batch: {"id": batch["id"]}).batch_padded(8, columns=["tokens"])) as loader,
        pytest.raises(ps.PlanError, match="batch_padded: no column 'tokens'; there are id"),
    ):
        list(loader)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda data: data.batch_padded(8, 64), "batch_padded: 64 is passed by position"),
        (
            lambda data: data.batch_padded(8, pad=-100),
            "pad=-100 fills the last batch, or not; write padding_value=-100",
        ),
        (lambda data: data.batch_padded(8, columns="name"), "column 'name' is string"),
        (lambda data: data.batch_padded(8, columns=["token"]), "no column 'token'"),
        (lambda data: data.batch_padded(8, columns=5), "columns=5; pass the names of columns"),
        (lambda data: data.batch_padded(8, padding_value={"tokens": 1.5}), "padding_value=1.5 is no int32"),
        (lambda data: data.batch_padded(8, padding_value="0"), "padding_value='0'"),
        (lambda data: data.batch(8).batch_padded(8), "batch_padded: the plan has a batch already"),
        (lambda data: data.batch_padded(8).batch(8), "batch: the plan has a batch already"),
        (lambda data: data.batch_padded(8, drop_last=True, wrap=True), "choose one of drop_last"),
    ],
)
def test_plans_that_cannot_be(make: Any, message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        make(ragged())


def test_states_know_the_padding() -> None:
    plan = ragged().shuffle(seed=1)
    with ps.Loader(plan.batch_padded(8, length=12)) as loader:
        state = loader.state_dict()
    with ps.Loader(plan.batch_padded(8, length=16)) as loader:
        with pytest.raises(ps.StateError, match=r"verb 3, pad: `length` was 12 and is 16"):
            loader.load_state_dict(state)
        with pytest.warns(UserWarning, match="of the same order"):
            loader.load_state_dict(state, strict=False)


def test_rows_that_a_function_chose_are_padded() -> None:
    """Above a lane stage the columns are known once they come."""

    def kept(batch: dict[str, Any]) -> Any:
        return batch["id"] % 3 == 0

    plan = ragged().shuffle(seed=1).filter(kept).batch_padded(4, length=12, padding_value=-1, steps=20)
    met = []
    with ps.Loader(plan) as loader:
        for batch in loader:
            check(batch, length=12)
            met += batch["id"].tolist()
    assert len(met) == 80
    assert {*met} == {*range(0, ROWS, 3)}
