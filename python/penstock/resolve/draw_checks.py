"""Columns of one row that draw random numbers in several places of a plan: never each for itself without a word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import Any

from penstock.core.errors import PlanError
from penstock.core.functions.random_use import mentions_generators
from penstock.core.messages import quoted
from penstock.core.warnings import warn
from penstock.plan.columns import known_columns
from penstock.plan.drawing import MOVES, concerns, draws_apart
from penstock.plan.nodes import Node, Transform, Zip
from penstock.plan.tree import flow, inputs_of
from penstock.transform.function import name_of, wants_generator

_APART = "If every column is to draw for itself, say so: transform(…, draws='apart')"


def check_draws(new: Node) -> None:
    """PlanError where a transform, or a zip, lets two columns draw for themselves and the user did not say so; a warning where functions do, or one column is moved at random and another is not.

    Transforms one after another count as one does, whatever stands between them, and so do those of datasets that are zipped. The datasets of a `concat` or `mix`
    have rows of their own.
    """
    if isinstance(new, Transform):
        known = known_columns(new.input)
        for below in flow(new.input):
            if isinstance(below, Transform):
                _check_after(new, below, known)
        _warn_of_still(new)
        _warn_of_left(new)
    elif isinstance(new, Zip):
        for first, second in combinations(range(len(new.inputs)), 2):
            _check_side_by_side(new.inputs, first, second)
        _warn_of_still(new)


def _warn_of_still(new: Transform | Zip) -> None:
    """A warning where random ops move the pixels of one column, and another one's image stays: a mask's crop was forgotten, perhaps."""
    known = known_columns(new)
    told = [pair for below in inputs_of(new) for pair in _moved_and_still(below)]
    found = [
        pair for pair in _moved_and_still(new) if pair not in told and (known is None or {pair[0], pair[1]} <= {*known})
    ]
    if found:
        moved, still, op = found[0]
        warn(
            f"{new.verb}: {op} moves the pixels of {quoted(moved)} at random, and nothing moves those of {quoted(still)}: a mask would no longer match its image. If both "
            f"belong together, give both the same random ops, transform({moved}=[…], {still}=[…], draws='together'); if not, say transform(…, draws='apart')"
        )


def _warn_of_left(new: Transform) -> None:
    """A warning where ops move the pixels of a column, and boxes or the like that went along with it before stay where they are."""
    known, chains = known_columns(new), dict(new.ops)
    moved = {name: _first_moved(ops) for name, ops in new.ops}
    for below in _of_same_rows(new.input):
        for name, ops in below.ops:
            of = getattr(ops[0], "of", None) if ops and getattr(ops[0], "goes_along", False) else None
            op = moved.get(of or "")
            if op is not None and name not in chains and (known is None or name in known):
                warn(
                    f"transform: {op} moves the pixels of {quoted(of)}, and {quoted(name)}, which went along with it before, stays: write both in one transform, or "
                    f"{name}={type(ops[0]).__name__}(of={of!r}) again"
                )
                return


def _first_moved(ops: Sequence[Any]) -> str | None:
    return next((type(op).__name__ for op in ops if getattr(op, "is_geometric", False)), None)


def _moved_and_still(root: Node) -> list[tuple[str, str, str]]:
    """Columns that random ops move, each with one that has ops and stays, and the kind of the first such op; none where the user said that columns draw apart."""
    transforms = _of_same_rows(root)
    if any(node.drawn == "apart" for node in transforms):
        return []
    chains = dict[str, list[Any]]()
    for node in transforms:
        for name, ops in node.ops:
            if not draws_apart(ops) and all(getattr(op, "on_pixels", True) for op in ops):
                chains.setdefault(name, []).extend(ops)
    moving = {name: _first_moving(name, ops) for name, ops in chains.items()}
    still = [name for name, op in moving.items() if op is None]
    return [(name, other, op) for name, op in moving.items() if op is not None for other in still]


def _first_moving(name: str, ops: Sequence[Any]) -> str | None:
    return next((type(op).__name__ for op in ops if MOVES in concerns([(name, (op,))])), None)


def _of_same_rows(root: Node) -> list[Transform]:
    """The transforms of a node's rows, with no function between that may do their work."""
    if root.joins == "rows" or root.column_effect == "unknown":
        return []
    found = [node for below in root.below for node in _of_same_rows(below)]
    return [*found, root] if isinstance(root, Transform) else found


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
            f"image and its mask, draw after the zip, where a function gets the columns of both: zip([…]).map_rows(function)"
        )


def _drawing_functions(root: Node) -> list[str]:
    return [
        f"{node.verb}({name_of(function)})"
        for node in flow(root)
        if (function := node.user_function) is not None and (wants_generator(function) or mentions_generators(function))
    ]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, sorted(names)))
