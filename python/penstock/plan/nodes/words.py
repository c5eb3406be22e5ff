"""What a node says of itself: a line for people, and a digest for states."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from penstock.core.columns.picked_rows import RowNumbers

if TYPE_CHECKING:
    from penstock.plan.node import Node

#: Fields that are no words of a verb.
_NO_WORDS = ("input", "inputs", "opened", "verb", "draws", "in_memory")
#: Fields that came later, and say nothing where they are not given: digests in older states know nothing of them.
LATER = {"later": True}


def describe(node: Node) -> str:
    """One line for people, such as "batch size=8 drop_last=True"."""
    words = sorted(
        (field for field in _fields(node) if field.name not in _NO_WORDS and "unsaid" not in field.metadata),
        key=lambda field: field.name == "picked",
    )
    parts = [
        _named(field.metadata.get("word", field.name), getattr(node, field.name), field.default) for field in words
    ]
    inputs = [f"inputs={len(node.below)}"] if node.joins else []
    return " ".join([node.verb, *inputs, *filter(None, parts)])


def said_of(node: Node, settings: type) -> Iterator[tuple[str, str]]:
    """What differs from the defaults of a class of settings: names and texts."""
    for field in _fields(settings):
        if (value := getattr(node, field.name)) != field.default:
            yield field.name, str(value)


def _fields(of: Any) -> tuple[Field[Any], ...]:
    return fields(of)


def digest(node: Node) -> str:
    """8 hex digits of all that the node says; functions count by their qualified name."""
    text = json.dumps(_plain(node), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


def _named(name: str, value: Any, default: Any) -> str:
    if value == default:
        return ""
    if name == "ops":
        return ", ".join(f"{column}=[{', '.join(map(repr, ops))}]" for column, ops in value)
    if name == "expressions":
        return ", ".join(f"{column}={expression!r}" for column, expression in value)
    if name == "op":
        return repr(value)
    if name == "columns":
        pairs = [(one, one) if isinstance(one, str) else one for one in value]
        return "columns=[" + ", ".join(f"{new}: {old}" if new != old else new for new, old in pairs) + "]"
    return f"{name}={getattr(value, '__qualname__', value)}"


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        inner = {
            field.name: _plain(getattr(value, field.name))
            for field in fields(value)
            if field.metadata.get("affects_result", True)
            and (field.name == "verb" or field.name not in _NO_WORDS)
            and not ("later" in field.metadata and getattr(value, field.name) == field.default)
        }
        return {"kind": type(value).__name__, **inner}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, RowNumbers):
        return repr(value)
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)
