"""Every kind of verb says what others must know of it, and nobody else lists kinds of verbs."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.plan import nodes
from penstock.plan.node import Node, kinds

PACKAGE = Path(ps.__file__).parent
KINDS = sorted(
    (kind for kind in kinds() if kind.__module__.startswith("penstock.") and isinstance(kind.verb, str) and kind.verb),
    key=lambda kind: kind.__name__,
)

#: Of each kind what it does to rows, to columns, and the other traits that hold.
TRAITS = {
    "Balance": "chosen same is_order reads_by_number passes_pixels",
    "Batch": "reordered same is_order is_batch has_equal_steps keeps_steps passes_pixels",
    "BatchTokens": "reordered same is_order is_batch reads_by_number keeps_steps passes_pixels",
    "Bucket": "reordered same is_order fixes_epoch reads_by_number passes_pixels",
    "Cache": "same same",
    "Concat": "same same rows grows needs_ends",
    "Deduplicate": "chosen same is_order passes_pixels",
    "Every": "chosen same is_order passes_pixels",
    "Exclude": "chosen same is_order passes_pixels",
    "Filter": "chosen same is_order passes_pixels",
    "FilterFunction": "counted same computes",
    "FlatMap": "counted unknown computes",
    "InLanes": "counted same computes",
    "LaneOutput": "counted unknown",
    "Map": "same unknown keeps_steps computes",
    "MapRows": "same unknown keeps_steps computes may_fail",
    "Mix": "reordered same rows grows own_epochs mixed needs_all_lanes",
    "Pack": "counted unknown computes",
    "Pad": "reordered changed keeps_steps passes_pixels computes",
    "Read": "same same may_fail",
    "Repeat": "reordered same is_order grows own_epochs repeated keeps_steps passes_pixels",
    "Sample": "chosen same is_order reads_by_number passes_pixels",
    "Select": "same chosen keeps_steps passes_pixels",
    "Shard": "reordered same is_order fixes_epoch keeps_steps passes_pixels",
    "Shuffle": "reordered same is_order shuffled keeps_steps passes_pixels",
    "Skip": "chosen same is_order needs_ends needs_all_lanes passes_pixels",
    "SkipBad": "counted same computes",
    "Sort": "chosen same is_order reads_by_number passes_pixels",
    "SourceColumn": "same changed keeps_steps",
    "Split": "chosen same is_order passes_pixels",
    "Subset": "chosen same is_order reads_by_number passes_pixels",
    "Take": "chosen same is_order needs_ends needs_all_lanes passes_pixels",
    "Transform": "same changed keeps_steps computes may_fail",
    "TransformBatch": "same changed keeps_steps computes",
    "WithColumns": "same computed keeps_steps computes may_fail",
    "Zip": "same same columns grows needs_ends",
}
FLAGS = {name for name, value in vars(Node).items() if isinstance(value, bool)}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_kind_has_all_traits(kind: type[Node]) -> None:
    said = [
        kind.row_effect,
        kind.column_effect,
        kind.joins,
        kind.ordered_as,
        *(flag for flag in FLAGS if getattr(kind, flag)),
    ]
    assert sorted(filter(None, said)) == sorted(TRAITS[kind.__name__].split())


def test_the_table_is_complete() -> None:
    assert [kind.__name__ for kind in KINDS] == sorted(TRAITS)
    assert {flag for said in TRAITS.values() for flag in said.split()} >= FLAGS


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_only_the_order_works_on_what_changes_no_column_and_runs_no_stage(kind: type[Node]) -> None:
    if kind.is_order:
        assert kind.row_effect in ("chosen", "reordered")
        assert kind.column_effect == "same"
        assert not kind.computes
    assert {"input", "inputs"} & {field.name for field in fields(kind)} or kind in (nodes.Read, nodes.LaneOutput)  # type: ignore[arg-type]


@pytest.mark.slow
def test_nobody_else_lists_kinds_of_verbs() -> None:
    """A tuple, list or set of three kinds or more is a trait that is missing; tables say what becomes of each, and these are dicts."""
    names = {kind.__name__ for kind in KINDS}
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        where = path.relative_to(PACKAGE).as_posix()
        if where.startswith("plan/nodes/"):
            continue
        tree = ast.parse(path.read_text())
        imported = {
            name.asname or name.name
            for one in ast.walk(tree)
            if isinstance(one, ast.ImportFrom) and (one.module or "").startswith("penstock.plan.node")
            for name in one.names
        }
        for one in ast.walk(tree):
            if isinstance(one, (ast.Tuple, ast.List, ast.Set)):
                listed = [entry.id for entry in one.elts if isinstance(entry, ast.Name)]
                if len([name for name in listed if name in names & imported]) > 2:
                    found.append(f"{where}: {', '.join(listed)}")
    assert found == []


def test_copies_of_a_plan_hold_nothing_that_was_resolved() -> None:
    import pickle

    data = ps.from_arrays({"x": np.arange(10)}).skip(2).shuffle(seed=1).batch(4)
    data.explain()
    again = pickle.loads(pickle.dumps(data))
    assert all("_resolved" not in vars(node) for node in again.nodes)
    assert again.explain() == data.explain()
