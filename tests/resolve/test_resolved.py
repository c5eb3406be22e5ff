"""What follows from a plan is found out once for each node, and is what a plain walk through the tree finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.order.rows.mixed import Stop, mixed_rows
from penstock.plan.nodes import Mix, Node, Repeat, Shuffle, Zip
from penstock.plan.tree import find, flow, origins
from penstock.resolve.cut import cut
from penstock.resolve.ordering import order_of, some_rank
from penstock.resolve.resolved import Resolved, resolve
from support.random_plans import Plan, plans
from support.random_rows import build
from support.tries import tries


def plain_rows(node: Node) -> int | None:
    """Rows of an epoch; None where a lane stage decides."""
    if isinstance(node, Mix) and node.rows is not None:
        return node.rows
    below = [plain_rows(one) for one in node.below]
    if node.row_effect == "counted" or None in below:
        return None
    counts = [one for one in below if one is not None]
    if isinstance(node, Mix):
        return mixed_rows(node.quotas, counts, Stop(node.stop), None)
    if isinstance(node, Zip):
        return counts[0]
    if isinstance(node, Repeat):
        return counts[0] * node.times
    return node.rows_of(counts)


def rows_or_none(node: Node) -> int | None:
    try:
        return resolve(node).rows
    except ps.PlanError:
        return None


def check(plan: Plan) -> None:
    root = plan.dataset.root
    for node in flow(root):
        found = resolve(node)
        assert rows_or_none(node) == plain_rows(node)
        samples = [origin.samples for origin in origins(cut(node))]
        assert found.first_ids.tolist() == np.cumsum([0, *samples]).tolist()
        assert found.ids == sum(samples)
        shuffle = find(node, Shuffle)
        assert found.seed == (0 if shuffle is None else shuffle.seed)
        assert found.begins == tuple(np.cumsum([0, *(resolve(one).ids for one in node.below)])[:-1].tolist())
    _check_natural(plan)
    _check_order(plan)


def _check_natural(plan: Plan) -> None:
    """In the natural order, ids are those of the model."""
    below = plan.below
    if below is None or plan.ids is None or not plan.ids or not plan.ordered:
        return
    chosen = resolve(below.root).chosen
    assert chosen is not None
    ids = chosen.ids(np.arange(chosen.rows))
    by_row = np.array(plan.row_ids)
    if resolve(below.root).links:
        return  # the ids are those of the first dataset alone
    assert by_row[ids].tolist() == list(plan.ids)


def _check_order(plan: Plan) -> None:
    """A plan whose nodes were resolved one after the other, verb by verb, has the order of one that is new."""
    root, again = plan.dataset.root, build(plan.code).root
    mine, other = (order_of(one, some_rank(one)).order for one in (root, again))
    assert mine.steps_per_epoch == other.steps_per_epoch
    assert mine.rows.words == other.rows.words
    if plan.staged:
        return
    for epoch in range(2):
        for step in range(min(3, mine.steps_per_epoch)):
            found, wanted = (one.ids(epoch, step, 1, 0, 1) for one in (mine, other))
            assert found.tolist() == wanted.tolist()
            for here, there in zip(mine.rows.with_followers(found), other.rows.with_followers(wanted), strict=True):
                assert (here is None and there is None) or np.array_equal(here, there)


def test_random_plans() -> None:
    seen = 0

    @settings(max_examples=tries(400), suppress_health_check=[HealthCheck.too_slow], deadline=None)
    @given(data=st.data())
    def test(data: st.DataObject) -> None:
        nonlocal seen
        plan = data.draw(plans(), label="plan")
        if plan is not None:
            check(plan)
            seen += 1

    test()
    assert seen


def test_arithmetic_is_done_once_for_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty verbs resolve twenty nodes: what lies below is not gone through again at each."""
    data = ps.from_arrays({"x": np.arange(1000)})
    for count in range(10):
        data = data.take(900 - count).skip(1)
    asked = list[Node]()
    kept = vars(Resolved)["chosen"]._find

    def count_and_find(of: Resolved) -> object:
        asked.append(of.node)
        return kept(of)

    monkeypatch.setattr(vars(Resolved)["chosen"], "_find", count_and_find)
    data = data.shuffle(seed=1)
    first, second = data.batch(10), data.batch(20)
    assert {len(one) for one in (first, second)} == {890}
    assert first.explain() != second.explain()
    assert asked
    assert len({id(node) for node in asked}) == len(asked)


def test_ids_of_inputs_are_counted_from_their_own_first_row() -> None:
    first, second = (ps.from_arrays({"x": np.arange(rows)}) for rows in (10, 7))
    joined = ps.concat([first.skip(2), second.every(3)])
    chosen = resolve(joined.root).chosen
    assert chosen is not None
    assert chosen.ids(np.arange(chosen.rows)).tolist() == [2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 16]
    assert resolve(second.every(3).root).chosen.ids(np.arange(3)).tolist() == [0, 3, 6]
    assert resolve(joined.root).begins == (0, 10)


def test_a_lane_stage_is_one_source_with_room_for_all_its_rows() -> None:
    data = ps.from_arrays({"x": np.arange(10)}).filter(lambda batch: batch["x"] > 3)
    found = resolve(data.root)
    with pytest.raises(ps.PlanError, match="filter: the number of rows that it gives is not known in advance"):
        _ = found.rows
    assert found.ids == 1 << 52
    assert found.chosen is None
    assert cut(ps.from_arrays({"x": np.arange(3)}).skip(1).root).verb == "skip"
