"""With all rules of the optimiser and with none: the same batches, ids, random numbers, states and digests."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import chain
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.plan.nodes import describe
from penstock.plan.rules import RULES, optimize
from penstock.plan.tree import Rule, flow
from support.promises import assert_same, keep
from support.random_plans import Plan, plans, worlds_of
from support.seams import with_rules
from support.tries import tries

STEPS = 6


def made(plan: Plan, rules: Sequence[Rule], world: int, rank: int) -> tuple[list[dict[str, Any]], str, Any]:
    """A rank's batches, its state and its ids; why it stopped, where it did."""
    with with_rules(rules), ExitStack() as stack:
        try:
            loader = ps.Loader(plan.dataset, rank=rank, world_size=world, cpus=1, prefetch=1)
            stack.callback(loader.close)
            batches = chain.from_iterable(iter(lambda: loader, None))
            found = [keep(next(batches)) for _ in range(STEPS)]
        except (ps.PlanError, ps.DataError, UserWarning) as error:
            if not any(said in str(error) for said in ("the last global batch has", "none came out", "has no batch")):
                raise
            return [], type(error).__name__, None  # how many rows were tried until then depends on threads
        ids = [] if plan.staged else [loader.sample_ids(0, step).tolist() for step in range(len(loader))]
        state = loader.state_dict()
        if plan.staged:
            del state["lanes"]  # whether rows that gave nothing are used already depends on threads
        return found, json.dumps(state, sort_keys=True), ids


@pytest.mark.slow
def test_random_plans() -> None:
    changed = Counter[str]()

    @settings(max_examples=tries(400), suppress_health_check=[HealthCheck.too_slow])
    @given(data=st.data())
    def test(data: st.DataObject) -> None:
        plan = data.draw(plans(), label="plan")
        if plan is None:
            return
        world = data.draw(st.sampled_from([1] if plan.natural else worlds_of(plan)), label="ranks")
        rank = data.draw(st.integers(0, world - 1), label="rank")
        batches, state, ids = made(plan, RULES, world, rank)
        wanted, wanted_state, wanted_ids = made(plan, (), world, rank)
        assert len(batches) == len(wanted)
        for step, (found, other) in enumerate(zip(batches, wanted, strict=True)):
            assert_same(found, other, f"step {step}")
        assert (state, ids) == (wanted_state, wanted_ids)
        root = plan.dataset.root
        changed["all"] += 1
        changed["changed"] += [*map(describe, flow(optimize(root)))] != [*map(describe, flow(optimize(root, ())))]

    test()
    assert changed["changed"] > changed["all"] / 10, f"rules are to apply to some plans: {dict(changed)}"
