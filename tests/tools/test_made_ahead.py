"""Batches by columns that native ops make: their chains run ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from support import plans
from support.images import encoded, picture

T, I = ps.table, ps.image  # noqa: E741  # as users write them
ROWS = 60
NUMBERS = np.random.default_rng(0).permutation(ROWS)
TEXTS = ["é" * (row * 7 % 23) for row in range(ROWS)]
BYTES = np.array([len(text.encode()) for text in TEXTS])


def rows() -> ps.Dataset:
    return ps.from_arrays({"text": TEXTS, "n": NUMBERS})


def scaled() -> ps.Dataset:
    return rows().transform(T.Recipe(n=[T.MinMax((0, 3)), T.Cast("float64")], far=T.IsMissing("n")).fit(rows()))


BY: dict[str, tuple[Callable[[], ps.Dataset], Any, Any, list[float]]] = {
    "bytes of a text": (lambda: rows().transform(text=ps.text.Bytes()), "text", BYTES, [11, 30]),
    "an expression": (lambda: rows().transform(text=ps.text.Bytes()), ps.col("text").len() * 2, BYTES * 2, [22, 60]),
    "computed of it": (lambda: rows().transform(text=ps.text.Bytes()).with_columns(k=ps.col("text").len() + 1), "k", BYTES + 1, [12, 31]),
    "a recipe's column": (scaled, "n", NUMBERS / (ROWS - 1) * 3, [1, 2]),
    "a new column": (scaled, "far", np.zeros(ROWS), [0.5]),
    "of some rows": (lambda: rows().take(40).transform(n=T.Hash(30)), "n", rows().transform(n=T.Hash(30)).head(40)["n"], [15]),
}  # fmt: skip


@pytest.mark.parametrize(("make", "by", "numbers", "boundaries"), BY.values(), ids=BY)
def test_rows_are_put_together_by_what_ops_make(
    make: Callable[[], ps.Dataset], by: Any, numbers: Any, boundaries: list[float]
) -> None:
    for data in (make(), make().shuffle(seed=1), make().shuffle(seed=1).map(dict)):
        known = data if "map" not in str(data) else make().shuffle(seed=1)
        found = plans.passes(known.batch_bucketed(6, by=by, boundaries=boundaries), 1)
        wanted = plans.passes(data.batch_bucketed(6, by=numbers, boundaries=boundaries), 1)
        for batch, one in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(batch["n"], one["n"])


def test_ranks_and_stops() -> None:
    plan = (
        rows().transform(text=ps.text.Bytes()).shuffle(seed=2).batch_bucketed(8, by="text", quantiles=3, multiple_of=64)
    )
    plans.ranks_make_one_batch(lambda: plan)
    plans.resumes(lambda: plan)


def test_tokens_are_counted_as_they_are_made() -> None:
    data = rows().transform(text=ps.text.Bytes())
    asked: list[tuple[int, int]] = []
    by_column = data.batch_tokens(100, by="text", progress=lambda done, of: asked.append((done, of)))
    for batch, one in zip(plans.passes(by_column), plans.passes(data.batch_tokens(100, by=BYTES)), strict=True):
        np.testing.assert_array_equal(batch["text"], one["text"])
    assert asked[-1] == (ROWS, ROWS)


def test_images_count_as_they_lie() -> None:
    files = [encoded(picture(20 + row, 30, row), "JPEG") for row in range(12)]
    data = ps.from_arrays({"image": files, "n": np.arange(12)}).transform(image=[I.Decode(), I.RandomResizedCrop(8)])
    by = [len(one) for one in files]
    found = plans.passes(data.batch_bucketed(4, by="image", quantiles=2), 1)
    for batch, one in zip(found, plans.passes(data.batch_bucketed(4, by=by, quantiles=2), 1), strict=True):
        np.testing.assert_array_equal(batch["n"], one["n"])


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "random": (lambda: ps.from_arrays({"image": [b""] * 9}).transform(image=[I.Decode()], view=I.From("image", [I.RandomResizedCrop(8)])).batch_bucketed(2, by="view", quantiles=2), "'view' is drawn anew in each epoch"),
    "a function's": (lambda: rows().map(lambda batch: {**batch, "m": batch["n"]}).batch_bucketed(2, by="m", quantiles=2), "'m' is made by a function.*with_columns"),
    "below a join": (lambda: ps.concat([rows().transform(n=T.Hash(9)), rows()]).batch_bucketed(2, by="n", quantiles=2), "'n' is made by ops in a dataset below concat.*transform behind concat"),
    "vectors": (lambda: rows().transform(T.Recipe(n=T.OneHot()).fit(rows())).batch_bucketed(2, by="n", quantiles=2), r"gives \(60,\) values a row"),
    "no column": (lambda: rows().transform(n=T.Hash(9)).batch_bucketed(2, by="m", quantiles=2), "no column 'm'"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "words"), WRONG.values(), ids=WRONG)
def test_what_is_not_known_ahead_is_refused(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(ps.PlanError, match=words):
        make()
