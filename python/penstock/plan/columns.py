"""Which columns there are at a node of a plan, as far as that can be known before it runs."""

from __future__ import annotations

from collections.abc import Collection

from penstock.core.columns.spec import Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.core.names import did_you_mean
from penstock.plan.node import Known, Node


def spec_of(root: Node) -> Spec:
    """The columns that a plan begins with: those of its source that are selected, or what all of its sources offer alike; of a zip, those of all."""
    return root.spec_of_inputs(list(map(spec_of, root.below)))


def needed_by(node: Node) -> dict[str, tuple[str, ...]]:
    """The columns that a transform works on, each with those of its chains that do."""
    found = dict[str, tuple[str, ...]]()
    for name, ops in node.chains:
        for needed in ops[0].needs(name) if ops and hasattr(ops[0], "needs") else (name,):
            found[needed] = (*found.get(needed, ()), name)
    return found


def made_by(node: Node) -> dict[str, tuple[str, ...]]:
    """The columns that each chain of a transform makes or changes."""
    return {
        name: tuple(dict.fromkeys(one for op in ops for one in (op.makes(name) if hasattr(op, "makes") else (name,))))
        or (name,)
        for name, ops in node.chains
    }


def transformed(node: Node, given: Spec) -> Spec:
    """The columns behind a transform, as far as its ops know without looking at data; those of other ops are as they were. PlanError for a column that an op cannot work on."""
    for name, ops in node.chains:
        for op in ops:
            given = op.output(name, given) if hasattr(op, "output") else given
    return given


def known_columns(node: Node) -> Known:
    """The columns that come out of a node and their types; "" for a type that only an op knows, None after a user's function."""
    return node.known_of(list(map(known_columns, node.below)))


def check_names(verb: str, names: Collection[str], below: Node) -> None:
    """PlanError for a column that is not there."""
    known = known_columns(below)
    if known is None:
        return  # a user's function may have made the column
    for name in names:
        if name not in known:
            raise PlanError(
                f"{verb}: no column {quoted(name)}; there are {', '.join(known)}{did_you_mean(name, known)}"
            )
