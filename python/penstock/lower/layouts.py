"""Which pixels that a transform gets come channels first: those that another one below it made so."""

from __future__ import annotations

from dataclasses import replace

from penstock.lower.chains import split_chains
from penstock.plan.nodes import Node, Transform
from penstock.plan.tree import inputs_of, rewrite
from penstock.transform.family import family_of


def with_layouts(root: Node) -> Node:
    """The plan, in which each transform knows the layout of pixels that others made, whatever stands between but functions; caches as of `split_chains`."""
    return rewrite(split_chains(root), (_with_layout,))


def is_channels_first(node: Node, column: str) -> bool:
    """Whether all transforms that make a column of pixels put its channels first."""
    makers = _makers(node, column)
    return bool(makers) and all(_layout_of(maker, column) == "NCHW" for maker in makers)


def _with_layout(node: Node) -> Node | None:
    if not isinstance(node, Transform):
        return None
    first = [name for name, _ in node.ops if is_channels_first(node.input, name)]
    return None if tuple(first) == node.channels_first else replace(node, channels_first=tuple(first))


def _layout_of(maker: Transform, name: str) -> str:
    ops = dict(maker.ops)[name]
    return family_of(ops).layout(ops)


def _makers(node: Node, column: str) -> list[Transform]:
    """The transforms that make a column, one for each dataset that is joined below; none where a dataset, or a function, has it of its own."""
    if node.column_effect == "unknown":
        return []
    if isinstance(node, Transform) and column in dict(node.ops):
        return [node]
    found = [_makers(below, column) for below in inputs_of(node)]
    return [] if node.joins == "rows" and not all(found) else [maker for makers in found for maker in makers]
