"""Which columns of a plan are drawn over which pictures: boxes, masks and points, as its ops and its sources say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.core.columns.overlay import Overlay
from penstock.plan.node import Node


def overlays_of(root: Node) -> dict[str, Overlay]:
    """Of what comes out of a plan, by column. Where sources that become one disagree, nothing is said; a transform that moves pictures without what lay over them takes it away."""
    if not root.below:
        return dict(getattr(getattr(getattr(root, "opened", None), "source", None), "overlays", {}))
    first, *others = map(overlays_of, root.below)
    if root.joins == "columns":
        return first | {name: overlay for one in others for name, overlay in one.items()}
    return _behind(
        root, {name: overlay for name, overlay in first.items() if all(one.get(name) == overlay for one in others)}
    )


def _behind(verb: Node, before: dict[str, Overlay]) -> dict[str, Overlay]:
    chains = dict(verb.chains)
    if not chains:
        return before
    moved = {name for name, ops in chains.items() if any(getattr(op, "is_geometric", False) for op in ops)}
    stay = {name: overlay for name, overlay in before.items() if overlay.of not in moved and name not in moved}
    return stay | said_of(chains, apart=getattr(verb, "drawn", None) == "apart")


def said_of(chains: Mapping[str, Sequence[Any]], *, apart: bool = False) -> dict[str, Overlay]:
    """What the chains of one transform say. One of indices is the mask of the first picture beside it, unless they draw apart."""
    found = {name: overlay for name, ops in chains.items() if (overlay := overlay_of(ops)) is not None}
    pictures = [
        name for name, ops in chains.items() if name not in found and ops and getattr(ops[0], "on_pixels", False)
    ]
    masks = [name for name in pictures if not apart and getattr(chains[name][0], "mode", "") == "P"]
    of = next((name for name in pictures if name not in masks), None)
    return found | {name: Overlay(kind="mask", of=of) for name in masks if of is not None}


def overlay_of(ops: Sequence[Any]) -> Overlay | None:
    """What a chain makes of its column, where its first op goes along with a picture: it names that, `of`, and says by its other fields what it is."""
    of = getattr(ops[0], "of", None) if ops else None
    if not isinstance(of, str):
        return None
    if hasattr(ops[0], "format"):  # the last op that says one has made it
        written = next(op.format for op in reversed(ops) if hasattr(op, "format"))
        return Overlay(kind="boxes", of=of, format=written, labels=tuple(ops[0].labels))
    return Overlay(kind="mask" if hasattr(ops[0], "mode") else "points", of=of)
