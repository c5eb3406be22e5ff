"""Weights that are set in mid-run: which mixes may have others, and a plan that has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from penstock.core.arguments import is_whole
from penstock.core.errors import PlanError, StateError
from penstock.core.messages import quoted
from penstock.plan.nodes import Mix, Node, Shard
from penstock.plan.tree import flow, inputs_of, with_inputs
from penstock.plan.weights import Changes, check_steps, check_weights, plain


def check_changing(new: Node) -> None:
    """PlanError if a mix whose weights change by step comes below a verb behind which steps take other rows than its own."""
    below = (node for branch in inputs_of(new) for node in flow(branch))
    if not any(isinstance(node, Mix) and node.changes for node in below):
        return
    if not new.keeps_steps:
        raise PlanError(
            f"{new.verb}: comes after a mix whose weights change by step, and would shift its rows to other steps; "
            f"let {new.verb} come before the mix, or give the mix weights that stay"
        )
    _check_shard("shard", new)


def mixes_of(root: Node) -> tuple[Mix, ...]:
    """The mixes of a plan, the outermost first."""
    return tuple(node for node in reversed(flow(root)) if isinstance(node, Mix))


@dataclass(frozen=True, kw_only=True)
class ChangedWeights:
    """What was set, of every mix of a plan: weights, and the step from which on they hold, counted over epochs."""

    of_mix: tuple[Changes, ...]

    @classmethod
    def none(cls, root: Node) -> Self:
        """Nothing was set."""
        return cls(of_mix=((),) * len(mixes_of(root)))

    def changed(self, root: Node, number: Any, step: int, weights: Any) -> ChangedWeights:
        """Other weights for a mix from a step on, in place of what was set for later ones; PlanError if that cannot be."""
        mixes = mixes_of(root)
        if not mixes:
            raise PlanError("set_weights: the plan mixes no datasets; write ps.mix([…], rows=…)")
        if not is_whole(number) or not 0 <= number < len(mixes):
            raise PlanError(
                f"set_weights: mix={quoted(number)}; the plan has {len(mixes)}, numbered from 0, the outermost first"
            )
        _check_settable(root, mixes[number])
        if isinstance(weights, (str, Mapping)) or not hasattr(weights, "__iter__"):
            raise PlanError(f"set_weights: {quoted(weights)}; give a list with a weight for each dataset")
        given = plain(weights)
        check_weights("set_weights", given, len(mixes[number].inputs))
        earlier = tuple(change for change in self.of_mix[number] if change[0] < step)
        changes = [*self.of_mix]
        changes[number] = (*earlier, (step, given))
        return replace(self, of_mix=tuple(changes))

    def applied(self, root: Node) -> Node:
        """The plan with these weights: from the first that was set on, in place of its own schedule."""
        if not any(self.of_mix):
            return root
        changes = {id(mix): some for mix, some in zip(mixes_of(root), self.of_mix, strict=True)}
        return _applied(root, changes)

    @property
    def entries(self) -> dict[str, Any]:
        """What a state holds of it, as JSON has it; nothing where nothing was set."""
        if not any(self.of_mix):
            return {}
        return {"weights": [[[step, [*weights]] for step, weights in changes] for changes in self.of_mix]}

    @classmethod
    def of_state(cls, root: Node, state: Mapping[str, Any]) -> ChangedWeights:
        """What a state says was set; StateError if that is nothing for this plan."""
        if "weights" not in state:
            return cls.none(root)
        mixes, saved = mixes_of(root), state["weights"]
        try:
            found = tuple(tuple((step, plain(weights)) for step, weights in changes) for changes in saved)
            for mix, changes in zip(mixes, found, strict=True):
                check_steps("state", changes)
                for _, weights in changes:
                    check_weights("state", weights, len(mix.inputs))
                if changes:
                    _check_settable(root, mix)
        except (TypeError, ValueError, PlanError) as error:
            raise StateError(
                f"the state has the weights {quoted(saved)}, which do not fit the plan's mixes ({error}); it was changed"
            ) from None
        return cls(of_mix=found)


def _applied(node: Node, changes: Mapping[int, Changes]) -> Node:
    made = with_inputs(node, [_applied(below, changes) for below in inputs_of(node)])
    mine = changes.get(id(node), ())
    if not isinstance(made, Mix) or not mine:
        return made
    kept = [change for change in made.schedule if change[0] < mine[0][0]]
    (_, weights), *later = [*kept, *mine]
    return replace(made, weights=weights, changes=tuple(later))


def _check_settable(root: Node, mix: Mix) -> None:
    """PlanError unless step k takes the rows that the mix makes for it, from epoch to epoch."""
    if mix.rows is None:
        raise PlanError(
            "set_weights: weights that change need epochs of so many rows, in which each dataset continues where it was; write mix(…, rows=…)"
        )
    node = root
    while node is not mix:
        if not node.keeps_steps:
            raise PlanError(
                f"set_weights: the mix comes below {node.verb}, which shifts its rows to other steps; let {node.verb} come before the mix"
            )
        _check_shard("set_weights", node)
        (node,) = inputs_of(node)


def _check_shard(where: str, node: Node) -> None:
    if isinstance(node, Shard) and len({*node.samples}) > 1:
        raise PlanError(
            f"{where}: where weights of a mix change by step, shard(…) must give all nodes equally many rows"
        )
