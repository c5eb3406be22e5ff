"""Figures and report as a user asks for them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.observe.figure_groups import RayFigures, RayNodeFigures, StorageFigures, TuningDecision
from penstock.observe.report import report_text
from penstock.observe.snapshot import Advice, Times
from penstock.observe.snapshot_of import snapshot_of


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


def test_a_report_prints_where_the_output_is_ascii(loader: ps.Loader) -> None:
    for _ in loader:
        pass
    advice = Advice(rule="a", evidence="5 µs", remedy="more", change="Loader(…, prefetch=8)", gain=1.4)
    found = replace(loader.stats(), advice=(advice,))
    text = report_text(found)
    assert text.isascii()
    assert "    -> Loader(..., prefetch=8) (up to 40% more)" in text.splitlines()


def test_all_that_a_report_says_prints_where_the_output_is_ascii() -> None:
    """Ranks that share lanes, a cache, and advice."""
    data = ps.from_arrays({"x": np.arange(960)}).cache().shuffle(seed=0, block_rows=10).batch(96, lanes=32)
    with ps.Loader(data, rank=1, world_size=3) as loader:
        for _ in loader:
            pass
        text = loader.report()
    assert "ranks share lanes" in text
    assert "batch(..., lanes=48)" in text
    assert "rank 1 of 3" in text
    assert "rows came out of it" in text
    assert text.isascii()


def test_loaders_datasets_and_figures_print_where_the_output_is_ascii() -> None:
    """Stages below a filter have two names, and the tuner's numbers with them."""
    data = ps.from_arrays({"x": np.arange(512)}).map(lambda batch: batch)
    data = data.filter(lambda row: row["x"] % 2 == 0).batch(16)
    with ps.Loader(data, epochs=1) as loader:
        for _ in loader:
            pass
        found, headspace = loader.stats(), loader.headspace(steps=1)
        for _ in headspace:
            pass
        for told in (data, loader, headspace, found, *found.advice, *(one.name for one in found.stages)):
            assert str(told).isascii()
            assert repr(told).isascii()
    assert any(one.name.startswith("map ") and " -> filter" in one.name for one in found.stages), found.stages


def test_figures_are_read_like_the_dict_that_they_were(loader: ps.Loader) -> None:
    for _ in loader:
        pass
    stats = loader.stats()
    plain = {name: getattr(stats, name) for name in stats}
    kind: Any = Mapping
    assert isinstance(stats, kind)
    assert (dict(stats), {**stats}, dict(stats.items())) == (plain, plain, plain)
    assert dict(zip(stats.keys(), stats.values(), strict=True)) == plain
    assert (len(stats), stats.get("samples"), stats.get("nope", 3)) == (len(plain), 100, 3)
    assert ("samples" in stats, "nope" in stats, 3 in stats) == (True, False, False)
    with pytest.raises(KeyError, match="nope"):
        stats["nope"]
    assert json.loads(json.dumps(stats.as_dict()))["stages"][0]["name"] == stats["stages"][0]["name"]
    assert Times(), "figures without a count are no false value"


def test_groups_of_figures_are_typed_and_read_like_the_dicts_that_they_were(loader: ps.Loader) -> None:
    for _ in loader:
        pass
    stats = replace(
        loader.stats(), storage=StorageFigures(requests=3), ray=RayFigures(nodes={"a": RayNodeFigures(items=2)})
    )
    plain = stats.as_dict()
    for name in ("storage", "memory", "errors", "tuning", "ray"):
        told, group = plain[name], stats[name]
        assert type(told) is dict
        assert group == told
        assert told == group
        assert group != {**told, "more": 1}
        assert {**group}.keys() == told.keys()
    assert (stats.storage and stats.storage.requests, stats["storage"]["requests"]) == (3, 3)
    assert (stats["ray"]["nodes"]["a"]["items"], plain["ray"]["nodes"]["a"]["items"]) == (2, 2)
    prefetch = stats.tuning.values["prefetch"]
    assert (
        prefetch.value
        == stats["tuning"]["values"]["prefetch"]["value"]
        == plain["tuning"]["values"]["prefetch"]["value"]
    )
    assert stats.memory.most_bytes == stats["memory"].get("most_bytes") > 0
    assert "from" in TuningDecision(from_=2).as_dict()
    assert TuningDecision(from_=2)["from"] == 2
    assert snapshot_of(json.loads(json.dumps(plain))) == stats
    with pytest.raises(FrozenInstanceError):
        stats.memory.held_bytes = 1  # type: ignore[misc]


def test_figures_pass_from_process_to_process(loader: ps.Loader) -> None:
    for _ in loader:
        pass
    stats = loader.stats()
    assert pickle.loads(pickle.dumps(stats)) == stats
