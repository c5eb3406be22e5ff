"""What the ranks of a process group say of their plans to each other, and how two of them differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from penstock.core.quoted import quoted
from penstock.plan.difference import differences
from penstock.plan.saved import PYTHON, SavedPlan, without_code

#: Bytes of details, which no state keeps.
_DETAILS_BYTES = 16 << 10
_MOST = 6


@dataclass(frozen=True, kw_only=True)
class PlanOfRank:
    """data: the data's digest; node: where nodes have files of their own, whose data it is. options: what else decides which rows come, by name."""

    plan: SavedPlan
    data: str
    samples: int
    node: int | None
    options: Mapping[str, Any]

    @cached_property
    def text(self) -> str:
        """All of it as JSON, equal on ranks that agree."""
        said = {
            "data": {str(self.node): [self.data, self.samples]},
            "plan": self.plan.plan,
            "details": self.plan.details(_DETAILS_BYTES),
            "python": PYTHON,
            "options": self.options,
        }
        return json.dumps(said, sort_keys=True, default=quoted)

    def difference(self, other: str) -> tuple[str, bool]:
        """What differs in the text of another rank, in words, and whether that gives it other rows or ops; "" for what may differ.

        Nodes may have other data. A function may hold other values, such as its rank or its device: that is said, and is no error.
        """
        theirs = json.loads(other)
        found = []
        for node, (data, samples) in theirs["data"].items():
            if node == str(self.node) and data != self.data:
                found.append(
                    f"the data was {samples:,} samples with digest {data} and is {self.samples:,} with {self.data}"
                )
        for name in sorted(theirs["options"].keys() | self.options.keys()):
            was, now = theirs["options"].get(name), json.loads(json.dumps(self.options.get(name), default=quoted))
            if was != now:
                found.append(f"{name} was {quoted(was)} and is {quoted(now)}")
        mine, saved = self.plan.plan, theirs["plan"]
        if theirs["python"] != PYTHON:
            saved = without_code(saved, mine)
        is_wrong = bool(found) or [*map(_without_values, saved)] != [*map(_without_values, mine)]
        if saved != mine:
            found += differences(saved, theirs["details"], mine, self.plan.described)
        more = [f"and {len(found) - _MOST} more"] if len(found) > _MOST else []
        return "; ".join([*found[:_MOST], *more]), is_wrong


def _without_values(verb: str) -> Sequence[str]:
    """A verb's words; of a map, which does not decide the order, without the digest of what its function holds."""
    words = verb.split(" ")
    return words[:2] if words[0].startswith("map") else words
