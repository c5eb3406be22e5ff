"""What a saved state says of its plan and data, and whether it fits those that are here.

Version 2 holds, besides the position,

    plan     a text a verb, which decides: what decides the order in clear, the rest as digests: of a function one of its code
             and one of its values
    details  what explains a difference, by the verb's number and the part's name, as far as 4 KiB have room
    python   the Python whose compiled code the digests are of

Version 3 says as well to how many lanes rows are dealt ("dealt": lanes, and blocks of a window), where blocks are large; a state of a plan that deals them as ever has version 2.
Version 1, which still loads, had the plan alone, with one digest a verb in which functions counted by their names.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from penstock.core.arguments import is_whole
from penstock.core.errors import StateError
from penstock.core.messages import quoted
from penstock.plan.difference import Described, differences
from penstock.plan.function_parts import FunctionPart, place_of
from penstock.plan.node import kinds
from penstock.plan.nodes import Cache, Node, Read, describe, digest, of_all_ranks
from penstock.plan.plain_values import digest_of
from penstock.plan.tree import flow
from penstock.plan.verb_parts import parts_of

STATE_VERSION = 3
_SHOWN = 80
_MOST = 6
#: Bytes of plan and details together, unless the plan alone has more: with the rest of a state, less than 4 KiB.
_PLAN_BYTES = 3_792
#: Stands where details were left out.
_MORE = "…"
PYTHON = str(sys.implementation.cache_tag)


@dataclass(frozen=True, kw_only=True)
class SavedPlan:
    """A plan as states hold it: functions, and what they close over, as they were when this was made."""

    nodes: tuple[Node, ...]
    described: tuple[Described, ...]

    @classmethod
    def of(cls, root: Node) -> SavedPlan:
        """What states hold of a plan: its verbs in flow order, each after its inputs, so that the list says what the tree is."""
        nodes = tuple(
            node for node in flow(root) if not isinstance(node, Cache) or node.freeze_random
        )  # else it changes nothing
        return cls(nodes=nodes, described=tuple(map(_described, nodes)))

    def on(self, world_size: int) -> SavedPlan:
        """The same with the batch that so many ranks make together."""
        return replace(self, nodes=of_all_ranks(self.nodes, world_size))

    @property
    def plan(self) -> list[str]:
        """A text a verb, which decides."""
        return [_in_short(node, verb.parts) for node, verb in zip(self.nodes, self.described, strict=True)]

    @property
    def order_digest(self) -> str:
        """32 hex digits of the verbs that decide which rows come when."""
        return _digest(_order_verbs(self.plan))

    @property
    def first_version(self) -> list[str]:
        """The same as states of version 1 have it."""
        return list(map(_first_version, self.nodes))

    @property
    def entries(self) -> dict[str, Any]:
        """What a state holds of it, as JSON has it."""
        plan = self.plan
        return {"plan": plan, "details": self.details(_PLAN_BYTES - len(json.dumps(plan))), "python": PYTHON}

    def details(self, room: int) -> dict[str, dict[str, str]]:
        """What explains a difference, by the verb's number and the part's name, in so many bytes."""
        return _that_fit(self.described, room)


def check_state(
    state: Mapping[str, Any], mine: Mapping[str, Any], plan: SavedPlan, *, strict: bool = True
) -> list[str]:
    """What a user should know of a state that fits; StateError if it belongs to another version, plan or data than `mine`, which is of here.

    Not strict, a plan may differ in all but its order. Of nodes with files of their own, each knows of its own state
    only whether the data is the same; of another's it checks the plan.
    """
    _check_form(state, mine)
    if state.get("node") == mine.get("node") and state["data"] != mine["data"]:
        raise StateError(
            f"the state belongs to other data: {_count(state['samples'])} samples with digest {quoted(state['data'])}, here "
            f"{mine['samples']:,} with {mine['data']}; open the data that was trained on, or start anew"
        )
    here = plan.first_version if state["version"] == 1 else plan.plan
    saved, notes = _unfolded(state["plan"], here), []
    if state["version"] > 1 and state["python"] != PYTHON:
        saved, notes = without_code(saved, here), _code_note(saved, here, state["python"])
    if saved == here:
        return notes
    differing = differences(saved, state.get("details", {}), here, plan.described)
    found = "; ".join([*differing[:_MOST], *([f"and {len(differing) - _MOST} more"] if len(differing) > _MOST else [])])
    orders = [_order_verbs(verbs) for verbs in (saved, here)]
    if orders[0] != orders[1]:
        raise StateError(
            f"the state belongs to another plan: {found}; that gives another order, so use the plan that was trained with, or "
            f"start anew{_hint(orders)}"
        )
    if strict:
        raise StateError(
            f"the state belongs to another plan: {found}; use the plan that was trained with, or go on with this one, which has the "
            f"same order, by load_state_dict(state, strict=False)"
        )
    return [
        f"the state belongs to another plan, of the same order: {found}; training continues with the plan that is here",
        *notes,
    ]


def _unfolded(saved: Sequence[str], here: Sequence[str]) -> list[str]:
    """All verbs of a saved plan.

    For a while, states held the first verbs of a long plan as one text, "folded 197 order=… parts=… code=…", with digests of those
    that decide the order and of all: these are the verbs of here, where the digests are.
    """
    was = saved[0].split(" ") if saved else [""]
    if was[0] != "folded":
        return [*saved]
    count = int(was[1]) if was[1:2] and was[1].isdigit() else 1
    verbs = here[:count]
    is_same = f"code={_digest(verbs)}" in was
    has_order = f"order={_digest(_order_verbs(verbs))}" in was
    recalled = [verb if is_same or (has_order and _decides(verb)) else _unrecorded(verb) for verb in verbs]
    return [*recalled, *[_unrecorded("verbs")] * (len(verbs) < count), *saved[1:]]


def _unrecorded(verb: str) -> str:
    return f"{verb.partition(' ')[0]} (not recorded)"


def _digest(verbs: Iterable[str]) -> str:
    return digest_of(verb.encode() for verb in verbs).hex()


def _order_verbs(plan: Sequence[str]) -> list[str]:
    return [verb for verb in plan if _decides(verb)]


def _decides(verb: str) -> bool:
    """Whether a verb decides which rows come when."""
    return verb.partition(" ")[0] in _deciding_verbs()


@cache
def _deciding_verbs() -> frozenset[str]:
    """Those that decide which rows come when; what the data says decides it, too, and then the code of their functions counts."""
    deciding = (kind for kind in kinds() if kind.is_order or kind.joins or kind.row_effect == "counted")
    return frozenset(verb for kind in deciding if isinstance(verb := getattr(kind, "verb", ""), str) and verb)


def _hint(orders: Sequence[Sequence[str]]) -> str:
    """How a state continues on another number of nodes or ranks."""
    if any(verb.startswith("shard ") for verbs in orders for verb in verbs):
        return "; nodes with files of their own go on as many as they were, each with the files that it had"
    sizes = {verb.split()[1] for verbs in orders for verb in verbs if verb.startswith("batch size=")}
    if len(sizes) < 2:  # the batch is of one size
        return ""
    return (
        "; a state continues with the same global batch on any number of ranks, and with per_rank=True that is size × ranks: "
        "batch(256), batch(64, per_rank=True) on 4 ranks and batch(32, per_rank=True) on 8 are one plan"
    )


def _check_form(state: Mapping[str, Any], mine: Mapping[str, Any]) -> None:
    if not isinstance(state, Mapping):
        raise StateError(f"the state is {type(state).__name__}; pass the dict that state_dict() returned")
    if not isinstance(state.get("data", ""), str):
        raise StateError(f"the state has the data {quoted(state['data'])}; it was changed")
    optional = {
        "node",
        "weights",
        "dealt",
        "on_error",
        *(("details", "python") if type(state.get("version")) is int and state["version"] == 1 else ()),
    }
    if missing := sorted((mine.keys() - optional) - state.keys()):
        raise StateError(f"the state lacks {', '.join(missing)}; pass what state_dict() returned")
    if not isinstance(state["version"], int) or not 1 <= state["version"] <= STATE_VERSION:
        raise StateError(
            f"the state has version {quoted(state['version'])}; this Penstock reads 1 to {STATE_VERSION}, so install the one that wrote it"
        )
    plan, details = state["plan"], state.get("details", {})
    if isinstance(plan, str) or not isinstance(plan, Sequence) or not all(isinstance(verb, str) for verb in plan):
        raise StateError(f"the state has the plan {quoted(plan)}; it was changed")
    if not isinstance(details, Mapping) or not all(isinstance(parts, Mapping) for parts in details.values()):
        raise StateError(f"the state has the details {quoted(details)}; it was changed")


def _count(samples: Any) -> str:
    return f"{samples:,}" if is_whole(samples) else quoted(samples)


def _in_clear(node: Node) -> bool:
    """Whether a state says what a verb is; of functions it has digests."""
    return node.is_order or bool(node.joins)


def _first_version(node: Node) -> str:
    """A verb as states of version 1 hold it; functions count by their qualified names."""
    if _in_clear(node) and len(shown := describe(node)) <= _SHOWN:
        return shown
    return f"{node.verb} {digest(replace(node, where='') if isinstance(node, Read) else node)}"


def _described(node: Node) -> Described:
    place = "" if node.user_function is None else place_of(node.user_function)
    return Described(verb=node.verb, place=place, parts=parts_of(node))


def _in_short(node: Node, parts: tuple[FunctionPart, ...]) -> str:
    if _in_clear(node):
        return _first_version(node)
    digests = [_digest_of(part for part in parts if not part.is_code)]
    if node.user_function is not None:
        digests.insert(0, _digest_of(part for part in parts if part.is_code))
    return " ".join([node.verb, *digests])


def _digest_of(parts: Iterator[FunctionPart]) -> str:
    return digest_of(piece for part in parts for piece in (part.name.encode(), part.digest)).hex()[:8]


def _that_fit(verbs: tuple[Described, ...], room: int) -> dict[str, dict[str, str]]:
    """The verbs' parts, by number and name, in turns: the first of each verb, then the second, as long as there is room."""
    details: dict[str, dict[str, str]] = {}
    turns = sorted(
        (turn, number, name, shown)
        for number, verb in enumerate(verbs, 1)
        for turn, (name, shown) in enumerate(verb.recorded)
    )
    for _, number, name, shown in turns:
        of_verb = details.setdefault(str(number), {})
        cost = len(json.dumps({name: shown})) + (0 if of_verb else len(str({str(number): {_MORE: ""}})))
        if _MORE in of_verb or cost > room:
            of_verb[_MORE] = ""
        else:
            of_verb[name] = shown
            room -= cost
    return {number: parts for number, parts in details.items() if parts.keys() != {_MORE}}


# A state of another version of Python: its code is other bytes for the same source, and cannot be compared.


def without_code(saved: Sequence[str], here: Sequence[str]) -> list[str]:
    """The saved verbs with the code of here, where they differ in nothing else."""
    if len(saved) != len(here):
        return [*saved]
    return [mine if _same_but_code(verb, mine) else verb for verb, mine in zip(saved, here, strict=True)]


def _same_but_code(verb: str, other: str) -> bool:
    first, second = verb.split(" "), other.split(" ")
    return verb.startswith("map") and len(first) == len(second) == 3 and (first[0], first[2]) == (second[0], second[2])


def _code_note(saved: Sequence[str], here: Sequence[str], python: Any) -> list[str]:
    if [*saved] == without_code(saved, here):
        return []
    return [
        f"the state was saved with {python}, and this is {PYTHON}: whether the code of the plan's functions is the same cannot be said"
    ]
