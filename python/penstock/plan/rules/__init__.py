"""The optimiser's rules, one a file: each gives the same batches with less work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.plan.nodes import Node, describe
from penstock.plan.rules.filter_before_columns import filter_before_columns
from penstock.plan.rules.filter_before_transform import filter_before_transform
from penstock.plan.rules.join_transforms import join_transforms
from penstock.plan.rules.join_transforms_across_order import join_transforms_across_order
from penstock.plan.rules.narrow_columns import narrow_columns
from penstock.plan.rules.numbered import numbered
from penstock.plan.rules.remove_select import remove_select
from penstock.plan.tree import Rule, flow, rewrite

#: Those after which the same rows are made, bad ones among them.
SAME_ROWS: tuple[Rule, ...] = (narrow_columns, remove_select, join_transforms_across_order)
RULES: tuple[Rule, ...] = (*SAME_ROWS, filter_before_transform, filter_before_columns)


@dataclass(frozen=True)
class Change:
    """What a rule did: the verbs that are gone, those that stand for them, and why."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        gone, come = ", ".join(self.before) or "nothing", ", ".join(self.after) or "nothing"
        return f"{self.reason}: {gone} → {come}"


def _as_it_is(root: Node) -> Node:
    return root


def optimize(
    root: Node,
    rules: Sequence[Rule] = RULES,
    changes: list[Change] | None = None,
    *,
    prepare: Callable[[Node], Node] = _as_it_is,
) -> Node:
    """The plan as it runs. changes: gets what was changed. prepare: what is done to it between joining transforms and the rules.

    Neighbouring transforms are joined whatever the rules are: a chain of ops is what is written, and its random numbers depend on it.
    """

    def note(rule: Rule, before: Node, after: Node) -> None:
        if changes is not None:
            changes.append(_change(rule, before, after))

    return rewrite(prepare(numbered(rewrite(root, (join_transforms,), note))), rules, note)


def _change(rule: Rule, before: Node, after: Node) -> Change:
    old, new = (list(map(describe, flow(node))) for node in (before, after))
    reason = (rule.__doc__ or rule.__name__).partition("\n")[0].rstrip(".")
    return Change(
        before=tuple(dict.fromkeys(verb for verb in old if old.count(verb) > new.count(verb))),
        after=tuple(dict.fromkeys(verb for verb in new if new.count(verb) > old.count(verb))),
        reason=reason[0].lower() + reason[1:],
    )
