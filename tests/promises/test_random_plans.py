"""Any plan, on any number of ranks, saved at any step and restored on any other number: the same global batches.

A failure prints the plan as a line of code; `build` of support/random_plans.py makes it again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock as ps
from support.promises import assert_same, join, keep
from support.random_plans import Plan, check_epoch, plans, worlds_of
from support.tries import TRIES, tries

STEPS = 12
#: Tests that share the cases, each with a time limit.
PARTS = 40 if TRIES >= 1_000 else 8
#: 200 cases in `make test`, 10,000 at full size.
CASES = tries(10_000) if TRIES >= 1_000 else tries(2_000)

Batches = list[dict[str, Any]]


class Refused(Exception):
    """What a plan cannot do, by design, is found while it runs."""


def run(plan: Plan, world: int, steps: int, *, state: Any = None, **options: Any) -> tuple[Batches, Any]:
    """The next `steps` global batches that so many ranks make together, over the ends of epochs, and the merged state then."""
    loaders = loaders_of(plan, world, **options)
    try:
        if state is not None:
            for loader in loaders:
                loader.load_state_dict(state)
        passes = [chain.from_iterable(iter(lambda it=loader: it, None)) for loader in loaders]
        found = [join([without_padding(keep(next(one))) for one in passes]) for _ in range(steps)]
        states = [json.loads(json.dumps(loader.state_dict())) for loader in loaders]
    except ps.DataError as error:
        if "none came out" in str(error):
            raise Refused(str(error)) from error
        raise
    finally:
        for loader in loaders:
            loader.close()
    return found, ps.merge_states(states)


def without_padding(batch: dict[str, Any]) -> dict[str, Any]:
    """Rows as long as they are: ranks pad to the longest of their own."""
    for name in [name for name in batch if f"{name}_lengths" in batch]:
        lengths, mask = batch[f"{name}_lengths"], batch.pop(f"{name}_mask")
        assert (mask == (np.arange(mask.shape[1]) < lengths[:, None])).all()
        assert not batch[name][~mask].any()
        batch[name] = pa.array([row[:length] for row, length in zip(batch[name], lengths, strict=True)])
    return batch


def loaders_of(plan: Plan, world: int, **options: Any) -> list[ps.Loader]:
    try:
        loaders = [ps.Loader(plan.dataset, rank=rank, world_size=world, **options) for rank in range(world)]
    except ps.PlanError as error:
        if "the last global batch has" in str(error):
            raise Refused(str(error)) from error
        raise
    assert len({len(loader) for loader in loaders}) == 1, "ranks differ in steps"
    return loaders


def holds(plan: Plan, worlds: Sequence[int], stop: int, **options: Any) -> None:
    first, second = worlds
    whole, _ = run(plan, 1, STEPS, **options)
    before, state = run(plan, first, stop, **options)
    after, _ = run(plan, second, STEPS - stop, state=state, **options)
    for step, (found, wanted) in enumerate(zip(before + after, whole, strict=True)):
        assert_same(found, wanted, f"{worlds} ranks, state after {stop} steps, step {step}")
    if not plan.staged:
        ranks_share_epochs(plan, first, whole)


def ranks_share_epochs(plan: Plan, world: int, whole: Batches) -> None:
    """What `sample_ids` says of all ranks is what came, and an epoch of it is what the plan has."""
    loaders = loaders_of(plan, world)
    steps = len(loaders[0])
    names = np.array(plan.row_ids)
    said = [
        [names[np.concatenate([loader.sample_ids(epoch, step) for loader in loaders])] for step in range(steps)]
        for epoch in range(STEPS // steps + 1)
    ]
    for loader in loaders:
        loader.close()
    for ids, batch in zip(chain.from_iterable(said), whole, strict=False):
        assert ids.tolist() == batch["id"].tolist()
    if plan.ids is not None and not plan.stepped:
        for epoch in said:
            check_epoch(np.concatenate(epoch).tolist(), plan)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_any_plan_any_ranks_any_restart(part: int) -> None:
    tally = Counter[str]()

    @settings(max_examples=-(-CASES // PARTS), suppress_health_check=[HealthCheck.too_slow])
    @given(data=st.data())
    def test(data: st.DataObject) -> None:
        plan = data.draw(plans(), label="plan")
        tally["cases"] += 1
        if plan is None:
            return
        tally["refused"] += len(plan.refused)
        ranks = st.sampled_from(worlds_of(plan))
        worlds = data.draw(st.tuples(ranks, ranks), label="ranks before and after")
        stop = data.draw(st.integers(0, STEPS), label="steps before the state")
        options = data.draw(
            st.sampled_from([{"cpus": 1, "prefetch": 1}, {"cpus": 1, "prefetch": 1}, {}]), label="options"
        )
        try:
            holds(plan, worlds, stop, **options)
            tally["real"] += 1
        except Refused:
            tally["refused while it runs"] += 1

    test()
    assert tally["real"] > tally["cases"] // 20 * 20 / 3, (
        f"most plans are to run, where there are enough to say so: {dict(tally)}"
    )
