"""Which columns there are at a node of a plan, as far as that can be known before it runs."""

from __future__ import annotations

from penstock.core.padding import columns_to_pad, lengths_name, mask_name
from penstock.core.spec import Spec
from penstock.plan.nodes import COLUMN_NODES, Node, Pad, Read, Select, SourceColumn, Transform, Zip
from penstock.plan.tree import flow, inputs_of


def spec_of(root: Node) -> Spec:
    """The columns that a plan begins with: those of its source that are selected, or what all of its sources offer alike; of a zip, those of all."""
    if isinstance(root, Read):
        return dict(root.opened.source.spec)
    specs = [spec_of(below) for below in inputs_of(root)]
    if isinstance(root, Zip):
        return {name: field for spec in specs for name, field in spec.items()}
    if isinstance(root, Select):
        return {name: specs[0][name] for name in root.columns if name in specs[0]}
    if isinstance(root, Transform):
        return transformed(root, specs[0])
    return {name: field for name, field in specs[0].items() if all(name in spec for spec in specs)}


def needed_by(node: Transform) -> dict[str, tuple[str, ...]]:
    """The columns that a transform works on, each with those of its chains that do."""
    found = dict[str, tuple[str, ...]]()
    for name, ops in node.ops:
        for needed in ops[0].needs(name) if ops and hasattr(ops[0], "needs") else (name,):
            found[needed] = (*found.get(needed, ()), name)
    return found


def transformed(node: Transform, given: Spec) -> Spec:
    """The columns behind a transform, as far as its ops know without looking at data; those of other ops are as they were. PlanError for a column that an op cannot work on."""
    for name, ops in node.ops:
        for op in ops:
            given = op.output(name, given) if hasattr(op, "output") else given
    return given


def known_columns(node: Node) -> dict[str, str] | None:
    """The columns that come out of a node and their types; "" for a type that only an op knows, None after a user's function."""
    if isinstance(node, Read):
        return {name: str(field) for name, field in node.opened.source.spec.items()}
    if isinstance(node, COLUMN_NODES):
        return None
    known = [known_columns(below) for below in inputs_of(node)]
    first, *others = (one for one in known if one is not None) if None not in known else (None,)
    if first is None:
        return dict.fromkeys(node.columns, "") if isinstance(node, Select) else None
    if isinstance(node, Zip):
        return {name: kind for one in (first, *others) for name, kind in one.items()}
    if isinstance(node, Select):
        return {name: first.get(name, "") for name in node.columns}
    if isinstance(node, Transform):
        return first | {name: "" for name, _ in node.ops}
    if isinstance(node, SourceColumn):
        return first | {node.name: "int32"}
    if isinstance(node, Pad):
        return _padded(node, first)
    return {name: kind for name, kind in first.items() if all(name in one for one in others)}


def _padded(node: Pad, known: dict[str, str]) -> dict[str, str] | None:
    if node.columns is None and any(isinstance(below, COLUMN_NODES) for below in flow(node.input)):
        return None
    padded = node.columns or columns_to_pad(node, spec_of(node.input))
    return {
        made: "" if name in padded else kind
        for name, kind in known.items()
        for made in ((name, lengths_name(name), mask_name(name)) if name in padded else (name,))
    }
