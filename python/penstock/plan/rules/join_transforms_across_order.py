"""Transforms of other columns become one stage where only verbs of order stand between them."""

from __future__ import annotations

from dataclasses import replace

from penstock.plan.nodes import Batch, Bucket, Node, Repeat, Select, Shard, Shuffle, Transform
from penstock.plan.row_choice import RowChoice
from penstock.plan.tree import with_inputs

#: Verbs that change no column of a row, and of which rows that are transformed before them have the same ids after them.
_ORDER = (Batch, Bucket, Repeat, RowChoice, Select, Shard, Shuffle)


def join_transforms_across_order(node: Node) -> Node | None:
    """Transforms with only verbs of order between them are one stage."""
    if not isinstance(node, Transform):
        return None
    between = list[Node]()
    below = node.input
    while isinstance(below, _ORDER):
        between.append(below)
        below = below.input
    if not isinstance(below, Transform) or {name for name, _ in below.ops} & {name for name, _ in node.ops}:
        return None  # a column's second chain begins with what the first one made: with other axes, or not at all
    if any(isinstance(one, Select) and not {*one.columns} >= {name for name, _ in node.ops} for one in between):
        return None
    made: Node = replace(below, ops=(*below.ops, *node.ops), draws=(*below.draws, *node.draws))
    for one in reversed(between):
        made = with_inputs(one, [made])
    return made
