"""A plan in words."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.core.columns.spec import Spec
from penstock.plan.nodes import Node, describe
from penstock.plan.tree import inputs_of


def explain_plan(title: str, root: Node) -> str:
    """One line a verb, in flow order; the inputs of a verb with several are drawn as branches above it."""
    return "\n".join([title, *(f"  {line}" for line in _lines(root))])


def _lines(root: Node) -> Iterator[str]:
    chain = [root]
    while len(inputs_of(chain[-1])) == 1:
        chain.append(inputs_of(chain[-1])[0])
    for number, branch in enumerate(inputs_of(chain[-1]), 1):
        yield f"input {number}"
        yield from (f"│ {line}" for line in _lines(branch))
    yield from (f"{number}. {describe(node)}" for number, node in enumerate(reversed(chain), 1))


def explain_spec(title: str, spec: Spec) -> str:
    """One line a column, under a title."""
    width = max((len(name) for name in spec), default=0)
    return "\n".join([title, *(f"  {name:<{width}}  {field}" for name, field in spec.items())])
