"""Any plan with caches anywhere gives the batches that it gives without, on any number of ranks, while rows are kept and when they come back."""

from __future__ import annotations

import tempfile
from itertools import chain
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.plan.nodes import Batch, Bucket, Cache, Node, Pad, SourceColumn
from penstock.plan.tree import find, flow, inputs_of, with_inputs
from penstock.resolve.cache_checks import check_cache
from support.promises import assert_same, keep
from support.random_plans import Draw, Plan, plans, worlds_of
from support.tries import tries

STEPS = 10


def batches(dataset: ps.Dataset, world: int, **options: Any) -> list[dict[str, Any]]:
    loaders = [ps.Loader(dataset, rank=rank, world_size=world, **options) for rank in range(world)]
    try:
        passes = [chain.from_iterable(iter(lambda it=loader: it, None)) for loader in loaders]
        return [keep(next(one)) for _ in range(STEPS) for one in passes]
    finally:
        for loader in loaders:
            loader.close()


@st.composite
def cached(draw: Draw, node: Node, folder: str) -> Node:
    """The node, with caches behind some of those below and itself."""
    below = [draw(cached(one, folder)) for one in inputs_of(node)]
    if isinstance(node, SourceColumn) and isinstance(below[0], Cache):
        below = [below[0].input]  # it counts the datasets of what it follows
    made = with_inputs(node, below)
    if isinstance(node, (Batch, Bucket, Pad)) or draw(st.integers(0, 2)):
        return made
    cache = Cache(
        input=made,
        folder=draw(st.sampled_from([None, None, folder])),
        size_bytes=draw(st.sampled_from([None, None, 3_000])),
        freeze_random=False,
    )
    try:
        check_cache(cache)
    except ps.PlanError:
        return made
    return cache


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_any_plan_with_caches_is_the_plan_without(part: int) -> None:
    tally = [0, 0]

    @settings(max_examples=-(-tries(160) // 4), suppress_health_check=[HealthCheck.too_slow])
    @given(data=st.data())
    def test(data: st.DataObject) -> None:
        plan: Plan | None = data.draw(plans(), label="plan")
        tally[0] += 1
        if plan is None:
            return
        with tempfile.TemporaryDirectory() as folder:
            root = data.draw(cached(plan.dataset.root, folder))
            if find(root, Cache) is None:
                return
            world = data.draw(st.sampled_from([one for one in worlds_of(plan) if one <= 3]))
            options = data.draw(st.sampled_from([{"cpus": 1, "prefetch": 1}, {}]))
            try:
                wanted = batches(plan.dataset, world, **options)
            except (ps.PlanError, ps.DataError, UserWarning):  # which says of an epoch that it has no batch
                return
            tally[1] += 1
            dataset = replace_root(plan.dataset, root)
            if plan.natural and world > 1:  # what is packed in memory is counted by itself, but not from a cache
                dataset.count_rows(epochs=STEPS, world_size=world)
            for time in ("first", "again"):
                for step, (found, batch) in enumerate(zip(batches(dataset, world, **options), wanted, strict=True)):
                    assert_same(found, batch, f"{time}, step {step}: {[node.verb for node in flow(root)]}")

    test()
    assert tally[1] >= tally[0] // 5


def replace_root(dataset: ps.Dataset, root: Node) -> ps.Dataset:
    return type(dataset)(root)
