"""Nodes that say which rows there are: of sources, and of several branches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.lower.branch import Branch, together
from penstock.lower.context import Context
from penstock.plan.nodes import Concat, LaneOutput, Mix, Node, Read, Zip
from penstock.runtime.stage import Stage
from penstock.stages.merge import MergeParts
from penstock.stages.zip import ZipParts


def lower_read(node: Read, _: Sequence[Branch], context: Context) -> Branch:
    """A source. The first stages read all sources together (`reading`), so that none is added here."""
    spec, sources = node.opened.source.spec, (context.source, context.source + 1)
    return Branch(sources=sources, spec=dict(spec), limits=node.limits, leaf=node, leaf_of={}, widest=spec, moved={})


def lower_lane_output(node: LaneOutput, _: Sequence[Branch], context: Context) -> Branch:
    """What a lane stage gives, which the first stages take as well; its columns are known once they come."""
    leaf, sources = node.sources[0], (context.source, context.source + 1)
    return Branch(sources=sources, spec=None, limits=leaf.limits, leaf=leaf, leaf_of={}, widest={}, moved={})


def lower_order(_: Node, inputs: Sequence[Branch], __: Context) -> Branch:
    """Which rows come when is no matter of columns."""
    return inputs[0]


def lower_joined(node: Concat | Mix, inputs: Sequence[Branch], context: Context) -> Branch:
    """Rows of several branches become one part; those that are read as one are."""
    found, first = together(inputs), inputs[0]
    found = replace(found, spec=first.spec if all(branch.spec == first.spec for branch in inputs) else None)
    low, high = found.sources
    if len(inputs) == 1 or any(begin <= low and high <= end for begin, end in context.read_as_one):
        return found
    merge = MergeParts(node.verb, [branch.sources for branch in inputs], context.slots, context.budget)
    stage = Stage(node.verb, "cpu", merge, threads=context.threads)
    return replace(found.then(stage), beside_bytes=found.beside_bytes + found.row_bytes)


def lower_zip(node: Zip, inputs: Sequence[Branch], _: Context) -> Branch:
    """Columns of several branches, side by side."""
    known = [branch.spec for branch in inputs if branch.spec is not None]
    spec = {name: field for one in known for name, field in one.items()} if len(known) == len(inputs) else None
    leaf_of = {
        name: branch.leaf_of.get(name, branch.leaf)
        for branch in inputs
        for name in branch.spec or branch.leaf.opened.source.spec
    }
    found = replace(together(inputs), spec=spec, leaf_of=leaf_of)
    return found.then(Stage(node.verb, "cpu", ZipParts([branch.sources for branch in inputs])))
