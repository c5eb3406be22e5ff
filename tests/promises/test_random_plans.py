"""Any plan, on any number of ranks, saved at any step and restored on any other number: the same global batches.

A failure prints the plan as a line of code; `build` of support/random_plans.py makes it again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock as ps
from support.promises import assert_same, join, keep
from support.random_plans import Draw, Plan, changes, check_epoch, plans, worlds_of
from support.tries import TRIES, tries

#: Steps of a run: in `make test` fewer, for more cases.
STEPS = 12 if TRIES >= 1_000 else 7
#: Tests that share the cases, each with a time limit.
PARTS = 40 if TRIES >= 1_000 else 8
#: 200 cases in `make test`, 10,000 at full size, few in `make quick`.
CASES = tries(10_000) if TRIES >= 1_000 else tries(8_000) if TRIES > 10 else tries(1_200)

Batches = list[dict[str, Any]]


class Refused(Exception):
    """What a plan cannot do, by design, is found while it runs."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """How some ranks go through steps [first, end): with which weights set before which step, and the batch's size given for all or for each rank."""

    world: int
    first: int = 0
    end: int
    changes: Mapping[int, list[float]]
    per_rank: bool = False
    options: Mapping[str, Any]


def run(plan: Plan, how: Run, state: Any = None) -> tuple[Batches, list[Any]]:
    """The global batches that the ranks make together, over the ends of epochs, and the states of all then.

    state: what each rank loads, or one for all.
    """
    loaders = loaders_of(plan, how.world, per_rank=how.per_rank, **how.options)
    try:
        for rank, loader in enumerate(loaders):
            if state is not None:
                loader.load_state_dict(state[rank] if isinstance(state, Own) else state)
        passes = [chain.from_iterable(iter(lambda it=loader: it, None)) for loader in loaders]
        found: Batches = []
        for step in range(how.first, how.end + 1):
            if step in how.changes:
                for loader in loaders:
                    loader.set_weights(how.changes[step])
            if step < how.end:
                found.append(join([without_padding(keep(next(one))) for one in passes]))
        return found, [saved(loader, plan, how) for loader in loaders]
    except ps.DataError as error:
        if "none came out" in str(error):
            raise Refused(str(error)) from error
        raise
    finally:
        for loader in loaders:
            loader.close()


class Own(list[Any]):
    """The states of ranks, each of which loads its own."""


def saved(loader: ps.Loader, plan: Plan, how: Run) -> Any:
    """A rank's state, as it comes back from a file."""
    state = json.dumps(loader.state_dict())
    assert len(state) < (64 << 10 if plan.staged else 4 << 10)
    return json.loads(state)


def without_padding(batch: dict[str, Any]) -> dict[str, Any]:
    """Rows as long as they are: ranks pad to the longest of their own."""
    for name in [name for name in batch if f"{name}_lengths" in batch]:
        lengths, mask = batch[f"{name}_lengths"], batch.pop(f"{name}_mask")
        assert (mask == (np.arange(mask.shape[1]) < lengths[:, None])).all()
        assert not batch[name][~mask].any()
        batch[name] = pa.array([row[:length] for row, length in zip(batch[name], lengths, strict=True)])
    return batch


def loaders_of(plan: Plan, world: int, *, per_rank: bool = False, **options: Any) -> list[ps.Loader]:
    dataset = plan.of(world, per_rank=per_rank)
    try:
        loaders = [ps.Loader(dataset, rank=rank, world_size=world, **options) for rank in range(world)]
    except ps.PlanError as error:
        if "the last global batch has" in str(error):
            raise Refused(str(error)) from error
        raise
    if plan.natural:
        count(plan, dataset, world, options.get("on_error", "raise"))
    else:
        assert len({len(loader) for loader in loaders}) == 1, "ranks differ in steps"
    return loaders


def count(plan: Plan, dataset: ps.Dataset, world: int, on_error: Any) -> None:
    """Counts as many epochs as `STEPS` reach into, where several ranks must know them; one rank finds the ends of most plans as it goes."""
    steps, epochs = 0, 0
    while steps <= STEPS:
        epochs += 1
        rows = dataset.count_rows(epochs=epochs, world_size=world, on_error=on_error)[-1]
        full, rest = divmod(rows, plan.size)
        steps += (step := full + (rest > 0 and plan.last != "drop_last"))
        if not step:
            raise Refused("an epoch without a step, and so without an end of them all")
        if 0 < rest < world and not plan.last:
            raise Refused("the last global batch is too small for all ranks")


def holds(plan: Plan, before: Run, after: Run, load: str) -> None:
    """The same global batches as one rank makes without a stop; `load`: what ranks load of the states before."""
    alone = Run(world=1, end=after.end, changes={**before.changes, **after.changes}, options=before.options)
    whole, (end,) = run(plan, alone)
    begun, states = run(plan, before)
    ended, _ = run(plan, after, loaded(states, load))
    for step, (found, wanted) in enumerate(zip(begun + ended, whole, strict=True)):
        assert_same(found, wanted, f"state after {after.first} steps, step {step}")
    for batch in whole:
        if "mate" in batch and not plan.packed:
            assert (batch["mate"] == batch["id"]).all(), "a zip paired other rows"
    if not plan.staged:
        ranks_share_epochs(plan, before.world, whole, end)


def loaded(states: list[Any], load: str) -> Any:
    """What ranks load: the merged state, all parts, or each its own."""
    return {"merged": ps.merge_states(states), "parts": states[::-1], "own": Own(states)}[load]


def ranks_share_epochs(plan: Plan, world: int, whole: Batches, state: Any) -> None:
    """What `sample_ids` says of all ranks is what came, and an epoch of it is what the plan has."""
    loaders = loaders_of(plan, world)
    for loader in loaders:
        loader.load_state_dict(state)  # which has the weights that were set
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


@st.composite
def runs(draw: Draw, plan: Plan) -> tuple[Run, Run, str]:
    """The same steps before and after a stop, on two numbers of ranks, and what is loaded between."""
    worlds = draw(st.tuples(*[st.sampled_from(worlds_of(plan))] * 2))
    stop, set_by_hand = draw(st.integers(0, STEPS)), draw(changes(plan, STEPS))
    options = draw(st.sampled_from([{"cpus": 1, "prefetch": 1}, {"cpus": 1, "prefetch": 1}, {}]))
    # What is set at the stop is in the state, or set again: the same.
    first, last = draw(st.sampled_from([(stop, stop), (stop, stop + 1), (stop - 1, stop)]))
    before = {step: weights for step, weights in set_by_hand.items() if step <= first}
    after = {step: weights for step, weights in set_by_hand.items() if step >= last}
    load = draw(st.sampled_from(["merged", "parts", "own"] if worlds[0] == worlds[1] else ["merged", "parts"]))
    per_rank = [not draw(st.integers(0, 3)) for _ in worlds]
    return (
        Run(world=worlds[0], end=stop, changes=before, per_rank=per_rank[0], options=options),
        Run(world=worlds[1], first=stop, end=STEPS, changes=after, per_rank=per_rank[1], options=options),
        load,
    )


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
        before, after, load = data.draw(runs(plan), label="before and after")
        try:
            holds(plan, before, after, load)
            tally["real"] += 1
        except Refused:
            tally["refused while it runs"] += 1

    test()
    assert tally["real"] > tally["cases"] // 20 * 20 / 3, (
        f"most plans are to run, where there are enough to say so: {dict(tally)}"
    )
