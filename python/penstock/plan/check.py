"""What can be known to be wrong before anything runs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TypeVar

from penstock.core.errors import PlanError
from penstock.plan.nodes import Batch, Map, MapRows, Node, Shard, Shuffle, Transform

_Kind = TypeVar("_Kind", bound=Node)


def check_verb(nodes: Sequence[Node], new: Node, columns: Iterable[str]) -> None:
    """PlanError if the verb cannot follow the others, or names a column that is not there."""
    if isinstance(new, Batch) and find(nodes, Batch):
        raise PlanError("batch: the plan has a batch already; a plan has one")
    if isinstance(new, Shuffle):
        if find(nodes, Shuffle):
            raise PlanError("shuffle: the plan shuffles already; once is enough, every epoch has another order")
        if find(nodes, Batch):
            raise PlanError("shuffle: must come before batch, since it decides which samples make a batch")
    if isinstance(new, Shard) and (find(nodes, Shard) or find(nodes, Batch)):
        raise PlanError("shard: once, and before batch, since it decides which samples make a batch")
    if isinstance(new, Transform):
        _check_columns(nodes, new, set(columns))


def _check_columns(nodes: Sequence[Node], new: Transform, known: set[str]) -> None:
    if any(isinstance(node, (Map, MapRows)) for node in nodes):
        return  # a user's function may have made the column
    for name, _ in new.ops:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise PlanError(f"transform: no column {name!r}; there are {', '.join(sorted(known))}{hint}")


def check_positional(verb: str, misplaced: Sequence[object], instead: str) -> None:
    """PlanError for positional arguments that other libraries read differently: shuffle(1000) is a buffer in tf.data."""
    if misplaced:
        shown = ", ".join(map(repr, misplaced))
        raise PlanError(f"{verb}: {shown} is passed by position, where other libraries mean something else; {instead}")


def find(nodes: Iterable[Node], kind: type[_Kind]) -> _Kind | None:
    """The first node of a kind."""
    return next((node for node in nodes if isinstance(node, kind)), None)
