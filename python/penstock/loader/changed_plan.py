"""What differs from the plan that a loader was given: weights that were set, and lanes that a state was saved with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from penstock.plan.changed_weights import ChangedWeights
from penstock.plan.nodes import Node
from penstock.resolve.dealt import Dealt, dealt_of, dealt_of_state


@dataclass(frozen=True, kw_only=True)
class ChangedPlan:
    """weights: of its mixes. dealt: to how many lanes its rows are dealt; None where the plan says it, or the rule."""

    weights: ChangedWeights
    dealt: Dealt | None = None

    @classmethod
    def none(cls, root: Node) -> Self:
        """Nothing differs."""
        return cls(weights=ChangedWeights.none(root))

    @classmethod
    def of_state(cls, root: Node, world_size: int, state: Mapping[str, Any]) -> Self:
        """What a state was saved with; StateError if that is nothing for this plan."""
        return cls(
            weights=ChangedWeights.of_state(root, state),
            dealt=dealt_of_state(root, world_size, state),
        )

    def with_weights(self, weights: ChangedWeights) -> Self:
        """The same with other weights."""
        return replace(self, weights=weights)

    def applied(self, root: Node, world_size: int) -> tuple[Node, Dealt | None]:
        """The plan as it is now, and to how many lanes it is dealt where its batch does not say it."""
        root = self.weights.applied(root)
        dealt = dealt_of(root, world_size, self.dealt)
        return (root, None) if dealt is None else (dealt.applied(root), dealt)
