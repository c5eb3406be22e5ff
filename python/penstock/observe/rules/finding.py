"""What a rule finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from penstock.observe.rules.seen import SeenRun
from penstock.observe.snapshot import Advice


@dataclass(frozen=True, kw_only=True)
class RuleFinding:
    """Something that limits a training. bottleneck: a stage's name, "consumer", "rank 3", … head: what is the matter, a sentence without its stop; "" for the usual one of a stage."""

    bottleneck: str
    advice: Advice
    head: str = ""


#: Looks at the figures; None where there is nothing of its kind.
Rule: TypeAlias = Callable[[SeenRun], RuleFinding | None]
