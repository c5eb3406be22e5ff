"""Which random ops of several columns draw the same numbers: `transform(image=…, mask=…, draws="together")`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.core.arguments import is_one_of
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.plan.nodes import Follow

Chains = Sequence[tuple[str, tuple[Any, ...]]]

#: Of ops that move pixels, as messages and `concerns` name it; other random ops are named by their kind.
MOVES = "moves pixels"


def random_columns(chains: Chains) -> list[str]:
    """The columns that have random ops."""
    return [name for name, ops in chains if not draws_apart(ops) and any(map(_is_random, ops))]


def concerns(chains: Chains) -> dict[str, set[str]]:
    """The columns with random ops, by what they do to pixels: two that are moved belong together, or two whose colours change alike."""
    found = dict[str, set[str]]()
    for name, ops in chains:
        for op in () if draws_apart(ops) else filter(_is_random, ops):
            found.setdefault(_concern(op), set()).add(name)
    return found


def check_drawn(chains: Chains, drawn: Any) -> None:
    """PlanError where several columns have random ops and nothing says how they draw, or it says what there is not."""
    columns = random_columns(chains)
    if drawn is not None and not is_one_of(drawn, ("together", "apart")):
        raise PlanError(
            f"transform: draws={quoted(drawn)}; choose 'together', so that a mask is cut as its image is, or 'apart', so that every column draws for itself"
        )
    if drawn == "together" and len(chains) == 1 and columns:
        raise PlanError(
            f"transform: draws='together' is for several columns, and there is only {quoted(columns[0])}; put those that draw together into one "
            f"transform(image=[…], mask=[…], draws='together')"
        )
    if drawn is None and len(columns) > 1:
        raise PlanError(
            f"transform: {_listed(columns)} have random ops, and whether these belong together is not said. For an image and its mask write "
            f"transform(image=[…], mask=[…], draws='together'): random ops at the same place of each chain draw the same numbers, so that both are cut and "
            f"mirrored alike. For two views of one image write transform(a=[…], b=[…], draws='apart'): every column draws for itself"
        )


def followed(chains: Chains) -> tuple[Follow, ...]:
    """What follows what where columns draw together; PlanError where their random ops differ.

    Random ops that move pixels must be the same in all chains, one after another. Others may be in some of them (a mask has no colours); where
    two chains have them, the n-th of a kind draws as the n-th.
    """
    chains = [(name, ops) for name, ops in chains if not draws_apart(ops)]
    _check_moved(chains)
    leaders, found = dict[tuple[str, int], tuple[str, int]](), list[Follow]()
    for name, ops in chains:
        met = dict[str, int]()
        for place, op in enumerate(ops):
            if not _is_random(op):
                continue
            concern = _concern(op)
            number = met[concern] = met.get(concern, -1) + 1
            leader, leads = leaders.setdefault((concern, number), (name, place))
            if leader == name:
                continue
            other = dict(chains)[leader][leads]
            if _draw_of(op) != _draw_of(other):
                raise PlanError(
                    f"transform: draws='together', and {_drawn_as(other)} of {quoted(leader)} and {_drawn_as(op)} of {quoted(name)} differ in what they "
                    f"draw; give both the same, or choose draws='apart'"
                )
            found.append(Follow(name, place, leader, leads))
    return tuple(found)


def _check_moved(chains: Chains) -> None:
    moving = {name: [op for op in ops if _is_random(op) and _concern(op) == MOVES] for name, ops in chains}
    (first, wanted), *others = moving.items()
    for name, ops in others:
        if [*map(_draw_of, ops)] != [*map(_draw_of, wanted)]:
            raise PlanError(
                f"transform: draws='together' needs the same random ops that move pixels in every chain, in one order: {quoted(first)} has "
                f"{', '.join(map(_drawn_as, wanted)) or 'none'}, and {quoted(name)} {', '.join(map(_drawn_as, ops)) or 'none'}. Sizes, interpolation and ops that draw nothing may differ; give a "
                f"column that is not to follow a transform of its own, or choose draws='apart'"
            )


def draws_apart(ops: Sequence[Any]) -> bool:
    """Whether a chain draws for itself, whatever is said of the others: that of another view of an image."""
    return bool(ops) and bool(getattr(ops[0], "draws_apart", False))


def _is_random(op: Any) -> bool:
    return bool(getattr(op, "is_random", False))


def _concern(op: Any) -> str:
    return MOVES if getattr(op, "moves_pixels", True) else type(op).__name__


def _drawn_as(op: Any) -> str:
    """An op as far as it decides what is drawn: "RandomHorizontalFlip(p=0.5)"."""
    kind, arguments = _draw_of(op)
    return f"{kind}({', '.join(f'{name}={value!r}' for name, value in arguments)})"


def _draw_of(op: Any) -> tuple[str, list[tuple[str, Any]]]:
    """An op as far as it decides what is drawn: its kind, and arguments by their names."""
    return type(op).__name__, [(name, getattr(op, name)) for name in getattr(op, "drawn_by", ())]


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(map(quoted, names[:-1]))} and {quoted(names[-1])}"
