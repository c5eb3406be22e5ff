"""The table of nodes: each kind has a row, and what a branch says of its columns is what comes out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.core.columns.spec import Field
from penstock.lower.context import Context, context_of
from penstock.lower.nodes import STAGES, lower_node
from penstock.order.steps.cursor import Position
from penstock.plan.node import Verb, kinds
from penstock.plan.nodes import LaneNode, Node
from penstock.plan.rules import optimize
from penstock.plan.tree import flow
from penstock.resolve.ordering import RankSettings, order_of
from penstock.runtime.slots import Slots
from penstock.stages.deliver_columns import VALID
from penstock.stages.lanes.stages import STAGES as LANE_STAGES
from support.random_plans import plans, worlds_of
from support.seams import lowered_of
from support.tries import tries


def test_each_kind_of_node_has_one_row() -> None:
    every = [
        kind for kind in kinds() if kind.__module__.startswith("penstock.") and isinstance(kind.verb, str) and kind.verb
    ]
    assert len(every) > len(LANE_STAGES)
    for kind in every:
        assert (kind in STAGES) + (kind in LANE_STAGES) + kind.is_order == 1, kind
        assert issubclass(kind, LaneNode) == (kind in LANE_STAGES), kind


@dataclass(frozen=True, kw_only=True)
class Reverse(Verb):
    """A verb that nobody wrote a row for."""

    verb: str = "reverse"


def context_for(root: Node) -> Context:
    return context_of(
        root, order_of(root, RankSettings()).order, RankSettings(), seed=0, slots=Slots(), memory_bytes=1 << 20
    )


def test_an_unknown_node_is_an_error_that_says_where_its_row_belongs() -> None:
    plan = ps.from_arrays({"x": np.arange(4)}).batch(2)
    node: Any = Reverse(input=plan.root)
    with pytest.raises(
        TypeError, match=r"no row of STAGES says what becomes of Reverse; write one in .*lower/nodes\.py"
    ):
        lower_node(node, context_for(plan.root), {})


def bright(batch: dict[str, Any]) -> dict[str, Any]:
    return batch


def test_a_branch_holds_all_that_its_node_and_those_below_add() -> None:
    """Stages, in their order, functions, and columns at their widest: images of both sources, and what stands beside them."""

    one, other = (ps.from_arrays({"image": np.zeros((4, 8, 8, 3), np.uint8)}) for _ in range(2))
    small, large = (it.transform(image=[ps.image.Resize((n, n))]) for it, n in ((one, 2), (other, 4)))
    plan = ps.concat([small, large.map(bright)]).batch(2)
    root, after = optimize(plan.root), dict[int, int]()
    branch = lower_node(root, context_for(root), after)
    assert [stage.name for stage in branch.stages] == ["transform", "transform", "map bright", "concat"]
    assert branch.sources == (0, 2)
    assert branch.spec is None
    assert [node.verb for node, _ in branch.functions] == ["map"]
    assert branch.row_bytes == 4 * 4 * 3
    assert branch.beside_bytes == 2 * 8 * 8 * 3 + 4 * 4 * 3
    assert [after[id(node)] for node in flow(root)] == [0, 1, 1, 2, 3, 4, 4]


def is_of(column: Any, field: Field) -> bool:
    """Whether a column is what its field says; an axis of None is as long as the batch needs."""
    if not isinstance(column, np.ndarray):
        return not field.is_fixed
    axes = zip(column.shape[1:], field.shape, strict=True)
    return column.dtype == field.numpy_dtype and all(axis in (None, length) for length, axis in axes)


@pytest.mark.slow
def test_the_spec_is_what_comes_out() -> None:
    """Of random plans: the columns' names, types and shapes, in their order, before anything ran."""
    seen = Counter[str]()

    @settings(max_examples=tries(300), suppress_health_check=[HealthCheck.too_slow])
    @given(data=st.data())
    def test(data: st.DataObject) -> None:
        plan = data.draw(plans(), label="plan")
        if plan is None:
            return
        world = data.draw(st.sampled_from(worlds_of(plan)), label="ranks")
        try:
            loader = ps.Loader(plan.dataset, rank=0, world_size=world, cpus=1)
        except ps.PlanError:  # too few rows for so many ranks
            return
        with loader:
            lowered = lowered_of(loader)
            seen["all"] += 1
            if lowered.columns is None or not len(loader):
                return
            item: Any = next(lowered.work_from(Position(), one_by_one=True))
            for stage in lowered.stages[:-1]:
                item = stage.work(item)
            (part,) = item.parts
            wanted = {name: field for name, field in lowered.columns.items() if name != VALID}
            assert list(part.columns) == list(part.spec) == list(wanted)
            assert [name for name, field in wanted.items() if not is_of(part.columns[name], field)] == []
            assert [name for name, field in wanted.items() if field.dtype != part.spec[name].dtype] == []
            seen["known"] += 1

    test()
    assert seen["known"] > seen["all"] / 20, f"columns are to be known of some plans: {dict(seen)}"
