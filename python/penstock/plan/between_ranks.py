"""What the ranks of a process group say of their plans to each other, and how two of them differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from penstock.core.messages import quoted
from penstock.plan.difference import differences
from penstock.plan.saved import PYTHON, SavedPlan, without_code

#: Bytes of details, which no state keeps.
_DETAILS_BYTES = 16 << 10
_MOST = 6


@dataclass(frozen=True, kw_only=True)
class PlanOfRank:
    """data: digest and number of samples; None where nodes have files of their own. options: what else decides which rows come, by name."""

    plan: SavedPlan
    data: tuple[str, int] | None
    options: Mapping[str, Any]

    @cached_property
    def text(self) -> str:
        """All of it as JSON, equal on ranks that agree."""
        said = {
            "data": self.data,
            "plan": self.plan.plan,
            "details": self.plan.details(_DETAILS_BYTES),
            "python": PYTHON,
            "options": self.options,
        }
        return json.dumps(said, sort_keys=True, default=quoted)

    def difference(self, other: str) -> tuple[str, bool]:
        """What differs in the text of another rank, in words, and whether that gives it other rows or ops; "" for what may differ.

        A function may hold other values, such as its rank or its device: that is said, and is no error.
        """
        theirs = json.loads(other)
        found = []
        if theirs["data"] is not None and self.data is not None and theirs["data"] != [*self.data]:
            (was, samples), (now, samples_here) = theirs["data"], self.data
            found.append(f"the data was {samples:,} samples with digest {was} and is {samples_here:,} with {now}")
        for name in sorted(theirs["options"].keys() | self.options.keys()):
            then, here = theirs["options"].get(name), json.loads(json.dumps(self.options.get(name), default=quoted))
            if then != here:
                found.append(f"{name} was {quoted(then)} and is {quoted(here)}")
        mine, saved, compared = self.plan.plan, theirs["plan"], 2
        if theirs["python"] != PYTHON:
            saved, compared = without_code(saved, mine), 1
        certain = [[_without_values(verb, compared) for verb in verbs] for verbs in (saved, mine)]
        is_wrong = bool(found) or certain[0] != certain[1]
        if saved != mine:
            found += differences(saved, theirs["details"], mine, self.plan.described)
        more = [f"and {len(found) - _MOST} more"] if len(found) > _MOST else []
        return "; ".join([*found[:_MOST], *more]), is_wrong


def _without_values(verb: str, words: int) -> Sequence[str]:
    """A verb's words; of a map, which does not decide the order, the first ones: its name, and the digest of its function's code."""
    found = verb.split(" ")
    return found[:words] if found[0].startswith("map") else found
