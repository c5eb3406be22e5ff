"""Where a plan without a cache could have one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.core.errors import PlanError
from penstock.plan.nodes import Cache, Node
from penstock.plan.tree import flow, inputs_of, origins
from penstock.resolve.cache_checks import check_cache


@dataclass(frozen=True)
class CachePlace:
    """A cache that would fit behind the stages [first, end). of: which dataset of several it would keep; "" for all rows of the plan."""

    first: int
    end: int
    of: str = ""


def cache_places(root: Node, stages_after: Mapping[int, int]) -> list[CachePlace]:
    """One place as high as it can be; where that is below a join, one in each dataset. Only where rows are changed: what is only read is read as fast.

    stages_after: how many stages there are up to each node.
    """
    if any(isinstance(node, Cache) or node.row_effect == "counted" for node in flow(root)):
        return []
    return _places(root, stages_after, first=0, of="")


def _places(root: Node, stages_after: Mapping[int, int], *, first: int, of: str) -> list[CachePlace]:
    node, changes = root, list[Node]()
    while len(inputs_of(node)) == 1:
        if node.computes and node.row_effect == "same":
            changes.append(node)
        node = inputs_of(node)[0]
    fitting = next((one for one in changes if _fits(one)), None)
    if fitting is not None:
        return [CachePlace(first, stages_after[id(fitting)], of)]
    found = list[CachePlace]()
    for number, below in enumerate(inputs_of(node)):  # which all share the stages that read
        name = f"{of} {number}".strip() if of else f"dataset {number} of {node.verb}"
        found += _places(below, stages_after, first=stages_after[id(origins(below)[0])], of=name)
    return found


def _fits(node: Node) -> bool:
    try:
        check_cache(Cache(input=node))
    except PlanError:
        return False
    return True
