"""The optimiser's rules, one a file: each gives the same batches with less work."""

from penstock.plan.nodes import Node
from penstock.plan.rules.join_transforms import join_transforms
from penstock.plan.tree import Rule, rewrite

RULES: tuple[Rule, ...] = (join_transforms,)


def optimize(root: Node) -> Node:
    """The plan as it runs."""
    return rewrite(root, RULES)
