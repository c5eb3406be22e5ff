"""How rows of a plan follow those of other sources."""

from __future__ import annotations

from itertools import pairwise

from penstock.order.chosen import ChosenRows
from penstock.order.natural import Natural
from penstock.order.protocol import RowOrder
from penstock.order.zipped import Link, Zipped
from penstock.plan.nodes import (
    Node,
    Zip,
)
from penstock.plan.tree import inputs_of, leaves
from penstock.resolve.row_counts import block_rows_at_source, first_ids_of
from penstock.resolve.row_orders import RowOrders


def natural_rows(root: Node) -> ChosenRows:
    """The ids of a plan's rows in their natural order, of a plan in which nothing has another."""
    order = RowOrders(root, 1, 1).rows
    assert isinstance(order, Natural)
    return order.segments


def links_of(root: Node, first_id: int = 0) -> tuple[Link, ...]:
    """How rows follow those of other sources, by the `zip`s of a plan that was cut; outer ones first. first_id: of its first source."""
    links, inner, begin, leader = list[Link](), list[Link](), first_id, None
    for below in inputs_of(root):
        ids = begin, begin + int(first_ids_of(below)[-1])
        if isinstance(root, Zip):
            if leader is None:
                leader = natural_rows(below), ids
            else:
                links.append(Link(leader=leader[0], follower=natural_rows(below), leads=leader[1], follows=ids))
        inner += links_of(below, begin)
        begin = ids[1]
    return (*links, *inner)


def zipped(root: Node, rows: RowOrder) -> RowOrder:
    """The order of a plan that was cut, also of rows that follow others. Beside blocks of these, files of a row each are still read one by one."""
    links = links_of(root)
    if not links:
        return rows
    ranges = zip(leaves(root), pairwise(first_ids_of(root).tolist()), strict=True)
    single = tuple(ids for leaf, ids in ranges if block_rows_at_source(leaf.opened.source) == 1)
    return Zipped(input=rows, links=links, single=single)
