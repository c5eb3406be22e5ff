"""What a state says of sources that can only be read in one order: how their rows come again."""

from __future__ import annotations

from penstock.core.errors import StateError
from penstock.order.steps.cursor import Position
from penstock.plan.nodes import Node, Read
from penstock.plan.tree import leaves
from penstock.source.protocol import ForwardSource, Resuming


def _streams(root: Node) -> list[tuple[Read, Resuming]]:
    found = [(leaf, leaf.opened.source) for leaf in leaves(root)]
    return [(leaf, source.resuming) for leaf, source in found if isinstance(source, ForwardSource)]


def stream_entries(root: Node) -> dict[str, str]:
    """What a state holds of them, if there are any: the worst that becomes of one (see `source.protocol.Resuming`)."""
    kinds = [kind for _, kind in _streams(root)]
    worst = next((kind for kind in (Resuming.NEVER, Resuming.AGAIN, Resuming.START) if kind in kinds), None)
    return {} if worst is None else {"resumes": worst.value}


def check_streams(root: Node, position: Position) -> None:
    """StateError if rows before a position came of an iterator, which cannot give them again."""
    for leaf, kind in _streams(root):
        if kind is Resuming.NEVER and position != Position():
            raise StateError(
                f"the state says {position}, and {leaf.where} is an iterator, which has no position and gives nothing again; pass a function "
                f"that makes it, from_iterable(lambda: …), with a parameter start if it can begin anywhere, or let spool=True store the rows"
            )
