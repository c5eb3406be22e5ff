"""What ranks say of their plans, and how they differ in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.plan import between_ranks
from penstock.plan.between_ranks import PlanOfRank
from penstock.plan.saved import SavedPlan


def said(dataset: ps.Dataset, samples: int = 8, **options: Any) -> PlanOfRank:
    return PlanOfRank(plan=SavedPlan.of(dataset.root), data=(dataset.digest, samples), options=options)


def rows(count: int = 8) -> ps.Dataset:
    return ps.from_arrays({"id": np.arange(count)})


def scaled(factor: int) -> Any:
    return lambda batch: {"id": batch["id"] * factor}


def test_ranks_that_agree() -> None:
    one, other = (said(rows().shuffle(seed=3).batch(2), on_error="raise") for _ in range(2))
    assert one.text == other.text
    assert one.difference(other.text) == ("", False)


def test_all_that_differs_is_said() -> None:
    one = said(rows().shuffle(seed=3).batch(2), on_error="raise", weights=[1])
    other = said(rows(9).shuffle(seed=4).batch(2), 9, on_error="skip")
    text, is_wrong = one.difference(other.text)
    assert is_wrong
    assert f"the data was 9 samples with digest {rows(9).digest} and is 8 with {rows().digest}; " in text
    assert "on_error was 'skip' and is 'raise'; weights was None and is [1]; " in text
    assert text.endswith("verb 2 was 'shuffle seed=4' and is 'shuffle seed=3'")


def test_nodes_with_files_of_their_own() -> None:
    here = replace(said(rows().batch(2)), data=None)
    there = replace(said(rows(9).batch(2), 9), data=None)
    assert here.text == there.text
    assert here.difference(said(rows(9).batch(2), 9).text) == ("", False)


@pytest.mark.parametrize(("verb", "is_wrong"), [("map", False), ("map_rows", False), ("filter", True)])
def test_values_of_functions(verb: str, *, is_wrong: bool) -> None:
    def of(factor: int) -> PlanOfRank:
        function = scaled(factor) if verb != "filter" else (lambda batch: batch["id"] > factor)
        dataset = getattr(rows(), verb)(function)
        return said(dataset.batch(2, steps=2) if verb == "filter" else dataset.batch(2))

    text, found = of(1).difference(of(2).text)
    assert "`factor` was 2 and is 1" in text
    assert found == is_wrong


def test_another_function_and_another_python(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = said(rows().map(scaled(1)).batch(2)), said(rows().map(lambda batch: {"id": batch["id"] - 1}).batch(2))
    assert one.difference(other.text)[1]
    theirs = other.text
    monkeypatch.setattr(between_ranks, "PYTHON", "cpython-399")
    assert not said(rows().map(scaled(1)).batch(2)).difference(theirs)[1], "whether the code is the same cannot be said"
