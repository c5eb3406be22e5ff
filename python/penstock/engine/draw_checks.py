"""Columns of one row that draw random numbers in several places of a plan: never each for itself without a word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product

from penstock.core.errors import PlanError
from penstock.core.quoted import quoted
from penstock.core.random_use import mentions_generators
from penstock.core.warned import warn
from penstock.plan.columns import known_columns
from penstock.plan.drawing import concerns
from penstock.plan.nodes import FUNCTION_NODES, Node, Transform, Zip
from penstock.plan.tree import flow
from penstock.transform.function import name_of, wants_generator

_APART = "If every column is to draw for itself, say so: transform(…, draws='apart')"


def check_draws(new: Node) -> None:
    """PlanError where a transform, or a zip, lets two columns draw for themselves and the user did not say so; a warning where functions do.

    Transforms one after another count as one does, whatever stands between them, and so do those of datasets that are zipped. The datasets of a `concat` or `mix`
    have rows of their own.
    """
    if isinstance(new, Transform):
        known = known_columns(new.input)
        for below in flow(new.input):
            if isinstance(below, Transform):
                _check_after(new, below, known)
    elif isinstance(new, Zip):
        for first, second in combinations(range(len(new.inputs)), 2):
            _check_side_by_side(new.inputs, first, second)


def _check_after(new: Transform, below: Transform, known: dict[str, str] | None) -> None:
    """known: the columns that are left of those below; None where only a function knows."""
    before, now = concerns(below.ops), concerns(new.ops)
    for concern, columns in now.items():
        drawn = {name for name in before.get(concern, ()) if known is None or name in known}
        if not drawn or _is_said(new.drawn, below.drawn, columns, drawn):
            continue
        others = sorted(drawn - columns) or sorted(drawn)
        raise PlanError(
            f"transform: random ops on {_listed(columns)} come after random ops on {_listed(others)}, which drew without them, so that an image and its mask "
            f"would be cut differently. Write the ops of columns that belong together in one transform(image=[…], mask=[…], draws='together'). {_APART}"
        )


def _is_said(now: str | None, before: str | None, columns: set[str], drawn: set[str]) -> bool:
    """Whether the user said how columns draw that have random ops now, and others that had some before."""
    if now == "apart":
        return True
    if now is None:
        return before == "apart" or drawn <= columns
    return before is not None and (not columns & drawn or (before == "together" and columns == drawn))


def _check_side_by_side(inputs: Sequence[Node], first: int, second: int) -> None:
    ones, others = (
        [node for node in flow(inputs[number]) if isinstance(node, Transform)] for number in (first, second)
    )
    for one, other in product(ones, others):
        mine, theirs = concerns(one.ops), concerns(other.ops)
        both = [concern for concern in mine if concern in theirs]
        if both and "apart" not in (one.drawn, other.drawn) and not one.drawn == other.drawn == "together":
            raise PlanError(
                f"zip: dataset {first} has random ops on {_listed(mine[both[0]])}, and dataset {second} on {_listed(theirs[both[0]])}, each of which draws for its own "
                f"dataset, so that an image and its mask would be cut differently; write zip([…]).transform(image=[…], mask=[…], draws='together'). {_APART}, in "
                f"one of the datasets"
            )
    drawing = [_drawing_functions(inputs[number]) for number in (first, second)]
    silent = [[node.verb for node in some if node.drawn is None and concerns(node.ops)] for some in (ones, others)]
    if any(drawing) and all(map(any, zip(drawing, silent, strict=True))):
        found = [(*functions, *ops)[0] for functions, ops in zip(drawing, silent, strict=True)]
        warn(
            f"zip: {found[0]} of dataset {first} and {found[1]} of dataset {second} draw random numbers, each for its own dataset; where these belong together, as of an "
            f"image and its mask, draw after the zip, where a function gets the columns of both: zip([…]).map_rows(function)",
            stacklevel=4,
        )


def _drawing_functions(root: Node) -> list[str]:
    return [
        f"{node.verb}({name_of(node.function)})"
        for node in flow(root)
        if isinstance(node, FUNCTION_NODES) and (wants_generator(node.function) or mentions_generators(node.function))
    ]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, sorted(names)))
