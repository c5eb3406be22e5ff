"""on_error="skip": with verbs after the batch, too, an epoch is all good rows once, and ends with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps
from support import promises
from support.tries import tries

ROWS, SIZE, BAD = 60, 12, {4, 11, 17, 40}


def data(**columns: Any) -> ps.Dataset:
    pixels = np.random.default_rng(0).integers(0, 256, (ROWS, 8, 8, 3), np.uint8)
    lists = [[row] * (row % 5 + 1) for row in range(ROWS)]
    return ps.from_arrays({"id": np.arange(ROWS), "image": pixels, "list": lists}).select("id", *columns)


def bad(row: dict[str, Any]) -> dict[str, Any]:
    if row["id"] in BAD:
        raise ps.DataError("no face in it")
    return {**row, "twice": 2 * row["id"]}


def twice(batch: dict[str, Any]) -> dict[str, Any]:
    return {**batch, "twice": 2 * batch["id"]}


def collated(batch: dict[str, Any]) -> dict[str, Any]:
    """All rows of a batch get the shape that its longest needs."""
    longest = int(batch["id"].max())
    return {**batch, "wide": np.zeros((len(batch["id"]), longest), np.uint8)}


FLIP = ps.image.RandomHorizontalFlip()
lists, images = {"list": 1}, {"image": 1}

PLANS: dict[str, Callable[[], ps.Dataset]] = {
    "map": lambda: data().map_rows(bad).batch(SIZE).map(dict),
    "map twice": lambda: data().map_rows(bad).batch(SIZE).map(dict).map(twice),
    "collated": lambda: data().map_rows(bad).batch(SIZE).map(collated),
    "map_rows": lambda: data().batch(SIZE).map_rows(bad),
    "map_rows behind map": lambda: data().batch(SIZE).map(dict).map_rows(bad),
    "map behind map_rows": lambda: data().batch(SIZE).map_rows(bad).map(collated),
    "shuffled": lambda: data().shuffle(seed=3).batch(SIZE).map_rows(bad).map(dict),
    "dropped": lambda: data().take(57).batch(SIZE, drop_last=True).map_rows(bad),
    "transform": lambda: data(**images).map_rows(bad).batch(SIZE).transform(image=FLIP),
    "transform and map": lambda: data(**images).batch(SIZE).map_rows(bad).transform(image=FLIP).map(dict),
    "selected": lambda: data(**images).batch(SIZE).map_rows(bad).select("id", "twice"),
    "padded, map": lambda: data(**lists).map_rows(bad).batch_padded(SIZE).map(dict),
    "padded, transform": lambda: data(**images, **lists).map_rows(bad).batch_padded(SIZE).transform(image=FLIP).transform(image=FLIP).map(dict),
    "padded to a length, map_rows": lambda: data(**lists).batch_padded(SIZE, length=5).map_rows(bad),
    "mixed": lambda: ps.mix([data().take(30).map_rows(bad), data().skip(30).map_rows(bad)], rows=ROWS).batch(SIZE).map(dict),
    "cached": lambda: data().map_rows(bad).cache().batch(SIZE).map_rows(dict),
    "repeated": lambda: data().repeat(2).batch(SIZE).map_rows(bad),
    "with steps": lambda: data().batch(SIZE, steps=4).map_rows(bad),
    "filtered": lambda: data().filter(lambda batch: batch["id"] < 50).batch(SIZE, steps=4).map_rows(bad),
}  # fmt: skip


def run(plan: ps.Dataset, ranks: int, epochs: int = 2) -> list[list[dict[str, Any]]]:
    """The global batches of some passes."""
    loaders = [ps.Loader(plan, rank=rank, world_size=ranks, on_error="skip") for rank in range(ranks)]
    if ranks > 1:
        plan.count_rows(epochs=epochs, on_error="skip")
        assert len({len(loader) for loader in loaders}) == 1
    found = list[list[dict[str, Any]]]()
    for _ in range(epochs):
        found.append([promises.join([_of_rows(part) for part in parts]) for parts in zip(*loaders, strict=True)])
    for loader in loaders:
        loader.close()
    return found


def _of_rows(part: dict[str, Any]) -> dict[str, Any]:
    """Without what is padded to the longest row of a rank's part."""
    return {name: column for name, column in promises.keep(part).items() if not name.startswith("list")}


@pytest.mark.filterwarnings("ignore:.*More bad samples are counted")
@pytest.mark.parametrize("name", PLANS)
def test_an_epoch_is_all_good_rows_once(name: str) -> None:
    plan = PLANS[name]()
    epochs = run(plan, 1)
    for batches in epochs:
        rows = [row for batch in batches for row in batch["id"].tolist()]
        assert not {*rows} & BAD
        if name not in ("dropped", "mixed", "with steps", "filtered"):
            times = 2 if name == "repeated" else 1
            assert sorted({*rows}) == sorted({*range(ROWS)} - BAD)
            assert len(rows) == times * (ROWS - len(BAD))
        assert all(len(batch["id"]) == SIZE for batch in batches[:-1])
    found = [batch for batches in epochs for batch in batches]
    for batch in found:
        assert "twice" not in batch or (batch["twice"] == 2 * batch["id"]).all()
        assert "wide" not in batch or batch["wide"].shape[1] == batch["id"].max()
    for ranks in (3, 2, 4)[: tries(3, at_least=1)]:
        if "wide" not in found[0]:  # what a function makes of a batch, it makes of a rank's part of it
            others = [batch for batches in run(plan, ranks) for batch in batches]
            for here, wanted in zip(others, found, strict=True):
                promises.assert_same(here, wanted, f"{ranks} ranks")


@pytest.mark.slow
def test_a_function_after_the_batch_has_the_step_and_one_before_has_none() -> None:
    def drawn(batch: dict[str, Any], rng: ps.RowGenerator) -> dict[str, Any]:
        return {**batch, "drawn": np.full(len(batch["id"]), rng.step.random())}

    (after,) = run(data().batch(SIZE).map(drawn), 1, epochs=1)
    assert len({batch["drawn"].tolist()[0] for batch in after}) == len(after)
    for here, wanted in zip(run(data().batch(SIZE).map(drawn), 3, epochs=1)[0], after, strict=True):
        promises.assert_same(here, wanted)
    for plan in (data().map(drawn).batch(SIZE), data().batch(SIZE).map(drawn).map_rows(dict)):
        with pytest.raises(ps.PlanError, match=r"rng\.step is the generator of a global batch"):
            run(plan, 1)


@pytest.mark.parametrize("more", ["map_rows", "transform behind map"])
def test_what_may_fail_after_padding_is_refused(more: str) -> None:
    padded = data(**images, **lists).batch_padded(SIZE)
    plan = padded.map_rows(dict) if more == "map_rows" else padded.map(dict).transform(image=FLIP)
    with pytest.raises(ps.PlanError, match=r"comes after batch_padded, .* write it before batch_padded"):
        ps.Loader(plan, on_error="skip")
