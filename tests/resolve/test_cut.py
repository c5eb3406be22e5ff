"""A plan is cut at its lane stages: what each gives is a leaf of the plan above it."""

from __future__ import annotations

from typing import Any

import numpy as np

import penstock as ps
from penstock.order.rows.lane_rows import LANE_ROWS
from penstock.plan.nodes import LaneOutput
from penstock.plan.tree import flow, leaves, origins
from penstock.resolve.cut import cut
from penstock.resolve.resolved import resolve
from support.seams import lowered_of


def numbers(count: int) -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(count)})


def odd(batch: dict[str, Any]) -> Any:
    return batch["x"] % 2 == 1


def test_sources_beside_a_lane_stage_keep_their_numbers() -> None:
    root = cut(ps.mix([numbers(50).filter(odd), numbers(70)]).root)
    output, source = origins(root)
    assert isinstance(output, LaneOutput)
    assert leaves(root) == (source,)
    assert resolve(root).numbered_sources == [(source, 1, output.samples)]
    assert resolve(root).first_ids.tolist() == [0, output.samples, output.samples + 70]


def test_what_is_below_is_left_as_it_was() -> None:
    plan = numbers(50).shuffle(seed=1).filter(odd).map(dict).flat_map(dict)
    (output,) = origins(cut(plan.root))
    assert isinstance(output, LaneOutput)
    assert output.node is plan.root
    assert output.sources == leaves(plan.root)
    assert [node.verb for node in flow(output.node)] == ["read", "shuffle", "filter", "map", "flat_map"]


def test_a_row_of_a_lane_stage_is_named_by_its_lane() -> None:
    (output,) = origins(cut(numbers(50).filter(odd).root))
    assert output.place(3 * LANE_ROWS + 1234) == "filter: row 1,234 of lane 3"
    assert output.file_of(0) == (None, None)
    assert output.size_bytes // output.samples == 8, "as long as the rows below"


def test_a_plan_without_lane_stages_is_the_same() -> None:
    root = numbers(50).shuffle(seed=1).batch(5).root
    assert cut(root) == root
    assert origins(root) == leaves(root)


def test_no_cache_is_advised_above_a_lane_stage() -> None:
    """Its rows have no places in the data, so that cache() would be refused there."""
    images = ps.from_arrays({"x": np.zeros((9, 8, 8, 3), np.uint8)})
    for data, count in ((images, 1), (images.filter(lambda batch: batch["x"][:, 0, 0, 0] < 1), 0)):
        plan = data.transform(x=[ps.image.Resize((4, 4))]).batch(3, steps=2)
        with ps.Loader(plan, rank=0, world_size=1) as loader:
            assert len(lowered_of(loader).cacheable) == count
