"""What each verb is made of, by names that users know, so that a state can say later what differs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any

from penstock.plan.function_parts import FunctionPart, function_parts
from penstock.plan.nodes import Node, Transform, TransformBatch
from penstock.plan.plain_values import digest_of, qualified_name

_LONGEST_SHOWN = 160


def parts_of(node: Node) -> tuple[FunctionPart, ...]:
    """The parts of a verb besides those that decide the order; not where the data lies."""
    if isinstance(node, Transform):
        return tuple(_of_chains(node))
    if isinstance(node, TransformBatch):
        return (_part("op", op_text(node.op)),)
    function = () if node.user_function is None else function_parts(node.user_function)
    return (*function, *(_part(name, text) for name, text in node.said()))


def _of_chains(node: Transform) -> Iterator[FunctionPart]:
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


def _part(name: str, text: str) -> FunctionPart:
    digest = digest_of([text.encode("utf-8", "surrogatepass")])
    return FunctionPart(name=name, shown=text if len(text) <= _LONGEST_SHOWN else f"#{digest[:3].hex()}", digest=digest)
