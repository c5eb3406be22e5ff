"""Figures and report as a user asks for them."""

from __future__ import annotations

import numpy as np
import pytest

import penstock as ps


@pytest.fixture
def loader() -> ps.Loader:
    return ps.Loader(ps.from_arrays({"x": np.arange(100)}).map(lambda batch: batch).batch(10))


def test_nothing_to_report_before_the_first_batch(loader: ps.Loader) -> None:
    assert loader.stats()["samples"] == 0
    assert loader.report().startswith("No batch was made yet.")


@pytest.mark.parametrize("how", ["break", "close", "with"])
def test_figures_outlive_the_pass(loader: ps.Loader, how: str) -> None:
    if how == "with":
        with loader:
            next(iter(loader))
    else:
        for _ in loader:
            if how == "break":
                break
    loader.close()
    stats = loader.stats()
    assert stats["samples"] >= 10
    assert [stage["name"] for stage in stats["stages"]][-1] == "deliver"
    assert loader.stats() == stats
    assert "No batch" not in loader.report()
