"""What each verb is made of, by names that users know, so that a state can say later what differs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any

from penstock.core.packing import Packing
from penstock.core.padding import Padding
from penstock.plan.function_parts import Part, function_parts
from penstock.plan.nodes import (
    FUNCTION_NODES,
    Cache,
    FilterFunction,
    Node,
    Pack,
    Pad,
    Read,
    Select,
    SourceColumn,
    Transform,
    TransformBatch,
)
from penstock.plan.nodes.picked import PickedRows
from penstock.plan.plain_values import digest_of, qualified_name

_LONGEST_SHOWN = 160


def parts_of(node: Node) -> tuple[Part, ...]:
    """The parts of a verb besides those that decide the order; not where the data lies."""
    if isinstance(node, Read):
        columns = ", ".join(f"{new}: {old}" if new != old else new for new, old in node.columns)
        return (_part("format", node.format), _part("columns", columns))
    if isinstance(node, Select):
        return (_part("columns", ", ".join(node.columns)),)
    if isinstance(node, SourceColumn):
        return (_part("name", node.name),)
    if isinstance(node, Cache):
        return (_part("freeze_random", str(node.freeze_random)),)
    if isinstance(node, Transform):
        return tuple(_of_chains(node))
    if isinstance(node, TransformBatch):
        return (_part("op", op_text(node.op)),)
    for kind, settings in ((Pad, Padding), (Pack, Packing)):
        if isinstance(node, kind):
            return tuple(
                _part(field.name, str(value))
                for field in fields(settings)
                if (value := getattr(node, field.name)) != field.default
            )
    if isinstance(node, PickedRows):
        words = [field.name for field in fields(node) if field.name not in ("input", "verb")]
        return tuple(_part(name, str(getattr(node, name))) for name in words)
    if isinstance(node, FilterFunction) and node.columns is not None:
        return (*function_parts(node.function), _part("columns", ", ".join(node.columns)), *_of_text(node.text))
    if isinstance(node, FUNCTION_NODES):
        return (*function_parts(node.function), *_of_text(getattr(node, "text", "arrow")))
    return ()


def _of_text(text: str) -> tuple[Part, ...]:
    return () if text == "arrow" else (_part("text", text),)


def _of_chains(node: Transform) -> Iterator[Part]:
    for column, ops in node.ops:
        for number, op in enumerate(ops, 1):
            yield _part(f"{column}, op {number}", op_text(op))
    if node.follows:
        yield replace(_part("draws", str([tuple(follow) for follow in node.follows])), shown="together")


def op_text(op: Any) -> str:
    """An op as one would write it, without what is the default: op_text(Resize(224)) == "Resize(size=224)"."""
    if not is_dataclass(op):
        return qualified_name(op)
    kept = [field for field in fields(op) if field.metadata.get("affects_result", True)]
    said = {field.name: getattr(op, field.name) for field in kept}
    defaults = {field.name: field.default for field in kept if field.default is not MISSING}
    inner = ", ".join(
        f"{name}={value!r}" for name, value in said.items() if name not in defaults or value != defaults[name]
    )
    return f"{type(op).__name__}({inner})"


def _part(name: str, text: str) -> Part:
    digest = digest_of([text.encode("utf-8", "surrogatepass")])
    return Part(name=name, shown=text if len(text) <= _LONGEST_SHOWN else f"#{digest[:3].hex()}", digest=digest)
