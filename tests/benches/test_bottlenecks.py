"""Pipelines with a known bottleneck, run for some seconds each: the verdict names it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHES = Path(__file__).parents[2] / "benches"
with pytest.MonkeyPatch.context() as patch:
    patch.setattr(sys, "path", [str(BENCHES), str(BENCHES / "peers"), *sys.path])
    pipelines, loops, bench, peers, observed = (
        importlib.import_module(name)
        for name in ("bottleneck_pipelines", "bottleneck_data", "bottlenecks", "bottleneck_peers", "observed")
    )
PIPELINES, MODEL_BOUND, in_process = pipelines.PIPELINES, loops.MODEL_BOUND, bench.in_process

#: What other programs use of the cores, from which on they may be the bottleneck themselves.
_BUSY = 0.25


def test_there_are_as_many_as_the_docs_say() -> None:
    assert (len(PIPELINES), len(MODEL_BOUND)) == (24, 10)
    assert len({one.name for one in PIPELINES}) == 24


def test_other_tools_see_each_of_them_or_their_documentation_says_what_they_would() -> None:
    run, told = {one.name for one in observed.LOOPS}, {*peers.DOCUMENTED}
    assert run | told == {one.name for one in PIPELINES}
    assert not run & told
    assert all({*says} == {*peers.TOOLS} for says in peers.DOCUMENTED.values())


@pytest.mark.long
@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda one: one.name)
def test_the_verdict_names_the_bottleneck(pipeline: Any) -> None:
    snapshot = in_process(pipeline.name, False, 5)["snapshot"]
    machine = snapshot["machine"]
    others = machine["mean_cpu"] - machine["mean_process_cpu"] - machine["mean_children_cpu"]
    if snapshot["advice"][0]["rule"] != pipeline.rule and others > _BUSY:
        pytest.skip(f"other programs use {others:.0%} of the cores, so that they may be the bottleneck")
    assert snapshot["advice"][0]["rule"] == pipeline.rule, snapshot["verdict"]


@pytest.mark.long
@pytest.mark.parametrize("name", MODEL_BOUND)
def test_loops_that_no_data_limits_get_no_verdict_of_data(name: str) -> None:
    snapshot = in_process(name, False, 5)["snapshot"]
    machine = snapshot["machine"]
    others = machine["mean_cpu"] - machine["mean_process_cpu"] - machine["mean_children_cpu"]
    if snapshot["bottleneck"] != "consumer" and others > _BUSY:
        pytest.skip(f"other programs use {others:.0%} of the cores, so that data may be late")
    assert snapshot["bottleneck"] == "consumer", snapshot["verdict"]
