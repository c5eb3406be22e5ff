"""A predicate that names its columns gets these alone; other columns are transformed after it, of the rows that stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import penstock as ps
from conftest import jpeg
from penstock.plan.nodes import Transform
from penstock.plan.rules import RULES, optimize
from penstock.plan.tree import Rule, flow
from support.promises import assert_same, keep
from support.seams import lowered_of, with_rules

CHAIN = [ps.image.Decode(), ps.image.CenterCrop(8)]
ROWS = 40


def table(bad: Sequence[int] = ()) -> ps.Dataset:
    images = [b"no picture" if row in bad else jpeg(row, 20, 16) for row in range(ROWS)]
    pixels = np.random.default_rng(0).integers(0, 255, (ROWS, 6, 6, 3), np.uint8)
    return ps.from_arrays({"id": np.arange(ROWS), "image": images, "pixels": pixels})


def odd(batch: dict[str, Any]) -> Any:
    return batch["id"] % 2 == 1


def verbs(dataset: ps.Dataset) -> list[str]:
    return [node.verb for node in flow(optimize(dataset.root))]


def run(
    dataset: ps.Dataset, rules: Sequence[Rule] = RULES, **options: Any
) -> tuple[list[dict[str, Any]], Mapping[str, int]]:
    with with_rules(rules), ps.Loader(dataset, cpus=1, prefetch=1, **options) as loader:
        return [keep(batch) for batch in loader], lowered_of(loader).images()


def test_rows_that_are_filtered_out_are_not_decoded() -> None:
    plan = table().transform(image=CHAIN).shuffle(seed=0).filter(odd, columns=["id"]).batch(4, steps=5)
    assert verbs(plan) == ["read", "shuffle", "filter", "transform", "batch"]
    (found, some), (wanted, all_) = run(plan), run(plan, ())
    for one, other in zip(found, wanted, strict=True):
        assert_same(one, other)
    assert sum(some.values()) <= 4 * (5 + 20), "those that stay, and what is prefetched"
    assert sum(all_.values()) >= ROWS


def test_chains_that_wait_and_chains_that_do_not() -> None:
    flip, grey = [ps.image.RandomHorizontalFlip()], [ps.image.CenterCrop(4)]
    plan = table().transform(image=CHAIN, pixels=flip, draws="apart").filter(odd, columns=["id"]).transform(pixels=grey)
    plan = plan.batch(4, steps=10)
    assert verbs(plan) == ["read", "transform", "filter", "transform", "batch"], "random numbers stay below"
    below, above = (node for node in flow(optimize(plan.root)) if isinstance(node, Transform))
    assert [list(dict(node.ops)) for node in (below, above)] == [["pixels"], ["image", "pixels"]]
    looks = table().transform(image=CHAIN).filter(bright, columns=["image"]).batch(4, steps=10)
    assert verbs(looks) == ["read", "transform", "filter", "batch"], "it looks at what is transformed"
    every = table().transform(image=CHAIN).filter(odd).batch(4, steps=10)
    assert verbs(every) == ["read", "transform", "filter", "batch"], "it may look at anything"
    build = [ps.image.Decode(entry_points="build"), ps.image.CenterCrop(8)]
    index = table().transform(image=build).filter(odd, columns=["id"]).batch(4, steps=10)
    assert verbs(index) == ["read", "transform", "filter", "batch"], "the index has places by rows of files"


def bright(batch: dict[str, Any]) -> Any:
    return batch["image"].mean(axis=(1, 2, 3)) > 100


def test_the_function_gets_its_columns_alone() -> None:
    seen = set[tuple[str, ...]]()

    def look(batch: dict[str, Any]) -> Any:
        seen.add((*batch,))
        return odd(batch)

    plan = table().shuffle(seed=0).filter(look, columns="id").select("pixels").batch(4, steps=3)
    found, _ = run(plan)
    assert seen == {("id",)}
    assert [list(batch) for batch in found] == [["pixels"]] * 3
    read = flow(optimize(plan.root))[0]
    assert list(read.opened.source.spec) == ["pixels", "id"]


def test_ahead() -> None:
    seen = list[tuple[str, ...]]()

    def look(batch: dict[str, Any]) -> Any:
        seen.append((*batch,))
        return odd(batch)

    assert len(table().filter(look, columns=["id"], ahead=True)) == ROWS // 2
    assert {*seen} == {("id",)}


@pytest.mark.filterwarnings("ignore:penstock")
@pytest.mark.parametrize("on_error", ["substitute", "skip"])
def test_bad_rows_are_what_they_were(on_error: str) -> None:
    """Which rows take the places of bad ones, or which are left out, does not depend on rules."""
    plan = table(bad=(3, 8, 9)).transform(image=CHAIN).shuffle(seed=0).filter(odd, columns=["id"]).batch(4, steps=10)
    (found, _), (wanted, _) = run(plan, on_error=on_error), run(plan, (), on_error=on_error)
    for one, other in zip(found, wanted, strict=True):
        assert_same(one, other)


def test_a_bad_picture_that_nobody_wants_is_no_error() -> None:
    plan = table(bad=(8,)).shuffle(seed=0).transform(image=CHAIN).filter(odd, columns=["id"]).batch(4, steps=5)
    assert len(run(plan)[0]) == 5
    with pytest.raises(ps.DataError):
        run(table(bad=(9,)).shuffle(seed=0).transform(image=CHAIN).filter(odd, columns=["id"]).batch(4, steps=5))


def test_states_go_from_rules_to_none() -> None:
    plan = table().transform(image=CHAIN).shuffle(seed=0).filter(odd, columns=["id"]).batch(4, steps=5)
    wanted, _ = run(plan)
    with ps.Loader(plan, cpus=1) as loader:
        batches = iter(loader)
        next(batches)
        next(batches)
        state = loader.state_dict()
    with with_rules(()), ps.Loader(plan, cpus=1) as loader:
        loader.load_state_dict(state)
        for one, other in zip(loader, wanted[2:], strict=True):
            assert_same(keep(one), other)
    other = table().transform(image=CHAIN).shuffle(seed=0).filter(odd, columns=["id", "image"]).batch(4, steps=5)
    with ps.Loader(other, cpus=1) as loader, pytest.raises(ps.StateError, match="columns"):
        loader.load_state_dict(state)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda data: data.filter(odd, columns=["imag"]), "filter: no column 'imag'.*did you mean 'image'"),
        (lambda data: data.filter(odd, columns=[]), "at least one"),
        (lambda data: data.filter(odd, columns=["id", "id"]), "twice"),
        (lambda data: data.filter(ps.col("id") > 3, columns=["id"]), "an expression names its columns"),
        (lambda data: data.filter(odd, columns=["ib"], ahead=True), "no column 'ib'"),
        (lambda data: data.filter(odd, columns=3), "names of columns"),
    ],
)
def test_what_cannot_be(wrong: Any, says: str) -> None:
    with pytest.raises(ps.PlanError, match=says):
        wrong(table())


def test_a_column_that_a_function_did_not_make() -> None:
    plan = table().map(lambda batch: {"y": batch["id"]}).filter(odd, columns=["id"]).batch(4, steps=5)
    with pytest.raises(
        ps.PlanError, match=r"filter\(odd\): no column 'id', which columns= names; the function before it returned y"
    ):
        run(plan)
