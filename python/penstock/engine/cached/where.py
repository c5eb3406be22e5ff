"""Where a plan without a cache could have one."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.core.errors import PlanError
from penstock.engine.cached.check import check_cache
from penstock.plan.nodes import Cache, LaneNode, Map, MapRows, Node, Transform
from penstock.plan.tree import flow, leaves


def where_cache_fits(root: Node, stages_after: Mapping[int, int]) -> int:
    """How many stages would be below a cache that lies as high as it can; 0 where there is none, or what it would keep is read as fast.

    stages_after: how many stages there are up to each node. Of plans of one source, since branches have stages of their own.
    """
    nodes = flow(root)
    if len(leaves(root)) > 1 or any(isinstance(node, (Cache, LaneNode)) for node in nodes):
        return 0
    found = 0
    for node in nodes:
        if isinstance(node, (Transform, Map, MapRows)):
            try:
                check_cache(Cache(input=node))
            except PlanError:
                break
            found = stages_after[id(node)]
    return found
