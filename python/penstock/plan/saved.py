"""What a saved state says of its plan and data, and whether it fits those that are here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from penstock.errors import StateError
from penstock.plan.nodes import Node, Read, describe, digest

STATE_VERSION = 1
_SHOWN = 80


def state_of(node: Node) -> str:
    """A verb as the state holds it: what decides the order in clear, the rest as a digest; not where the data lies."""
    if node.verb in ("shuffle", "shard", "batch") and len(shown := describe(node)) <= _SHOWN:
        return shown
    return f"{node.verb} {digest(replace(node, where='') if isinstance(node, Read) else node)}"


def check_state(state: Mapping[str, Any], mine: Mapping[str, Any]) -> None:
    """StateError if a state belongs to another version, plan or data than `mine`, which is of here.

    Of nodes with files of their own, each can tell of its own state only whether the data is the same; of another's it checks the plan.
    """
    if not isinstance(state, Mapping):
        raise StateError(f"the state is {type(state).__name__}; pass the dict that state_dict() returned")
    if missing := sorted((mine.keys() - {"node"}) - state.keys()):
        raise StateError(f"the state lacks {', '.join(missing)}; pass what state_dict() returned")
    if not isinstance(state["plan"], Sequence):
        raise StateError(f"the state has the plan {state['plan']!r}; it was changed")
    if state["version"] != STATE_VERSION:
        raise StateError(f"the state has version {state['version']!r}; this Penstock reads {STATE_VERSION}")
    if state.get("node") == mine.get("node") and state["data"] != mine["data"]:
        raise StateError(
            f"the state belongs to other data: {state['samples']:,} samples with digest {state['data']}, here "
            f"{mine['samples']:,} with {mine['data']}; open the data that was trained on, or start anew"
        )
    for number, (saved, here) in enumerate(zip_longest(state["plan"], mine["plan"], fillvalue="nothing"), 1):
        if saved != here:
            raise StateError(
                f"the state belongs to another plan: verb {number} was {saved!r} and is {here!r}; use the plan that "
                f"was trained with, or start anew{_hint(str(saved), here)}"
            )


def _hint(saved: str, here: str) -> str:
    """How a state goes on where the number of nodes or ranks is another one."""
    if any(verb.startswith("shard ") for verb in (saved, here)):
        return "; nodes with files of their own go on as many as they were, each with the files that it had"
    sizes = [verb.split()[1] for verb in (saved, here) if verb.startswith("batch size=")]
    if len(set(sizes)) < 2:  # the batch is of one size
        return ""
    return (
        "; a state goes on with the same global batch on any number of ranks, and with per_rank=True that is size × ranks: "
        "batch(256), batch(64, per_rank=True) on 4 ranks and batch(32, per_rank=True) on 8 are one plan"
    )
