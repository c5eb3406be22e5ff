"""What cannot be kept: rows that have no number, and rows that differ from epoch to epoch."""

from __future__ import annotations

from typing import Any

from penstock.core.errors import PlanError
from penstock.core.functions.held_generators import HeldGenerators
from penstock.core.functions.random_use import mentions_generators
from penstock.plan.nodes import Cache, Map, MapVerb, Node, Read
from penstock.plan.tree import flow
from penstock.source.protocol import Access
from penstock.transform.function import name_of, wants_generator

_ELSE = "put cache() before it, so that it draws anew in every epoch"


def check_cache(node: Cache) -> None:
    """PlanError where rows below cannot be kept by their numbers, or draw random numbers that a cache would repeat for ever."""
    for below in flow(node.input):
        if below.row_effect == "counted":
            verb = below.verb
            raise PlanError(
                f"cache: rows are kept by their places in the data, and those that come out of {verb} have none; put cache() before {verb}(…)"
            )
        if isinstance(below, Read):
            _check_source(below)
        else:
            _check_random(below, freezes=node.freeze_random)


def _check_source(leaf: Read) -> None:
    source: Any = leaf.opened.source
    if source.access is Access.FORWARD:
        raise PlanError(
            "cache: this source is drawn in one order, and its rows cannot be asked for by number; let from_iterable(…, spool=True) keep them"
        )
    if getattr(getattr(source, "calls", None), "draws", False):
        raise PlanError(
            f"cache: items of {type(source.data).__qualname__} draw random numbers, and a cache would give the same ones in every epoch; let the object give "
            f"what it has, and draw behind cache(), in map_rows"
        )


def _check_random(node: Node, *, freezes: bool) -> None:
    for op in (op for _, ops in node.chains for op in ops if not freezes):
        if getattr(op, "is_random", False):
            raise PlanError(
                f"cache: {type(op).__name__} draws anew in every epoch, and a cache would repeat what it drew; {_ELSE}, or choose "
                f"cache(freeze_random=True), which keeps what epoch 0 draws"
            )
    if isinstance(node, MapVerb):
        is_unasked = mentions_generators(node.function) or bool(HeldGenerators(node.function))
        if is_unasked or wants_generator(node.function):
            refuse_random(node, freezes=freezes, by_rows=not is_unasked)


def refuse_random(node: MapVerb, *, freezes: bool, by_rows: bool) -> None:
    """PlanError for a function that draws, unless it draws for each row and that is frozen. by_rows: it draws from its `rng` only."""
    where = f"{node.verb}({name_of(node.function)})"
    if isinstance(node, Map) and freezes and not by_rows:
        raise PlanError(
            f"cache: {where} draws random numbers for whole batches, so that a row depends on those beside it; use a parameter `rng`, or map_rows, which draw for each row, or "
            f"{_ELSE}"
        )
    if not freezes:
        raise PlanError(
            f"cache: {where} draws random numbers, and a cache would repeat what it drew; {_ELSE}, or let map_rows draw and choose cache(freeze_random=True), "
            f"which keeps what epoch 0 draws"
        )
