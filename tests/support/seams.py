"""What tests look at inside a loader. The one file of the tests that knows where a loader keeps it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import penstock as ps
import penstock.lower.plan as lowering
from penstock.lower.lowered import Lowered
from penstock.order.steps.batches import BatchOrder
from penstock.plan.tree import Rule


def lowered_of(loader: ps.Loader) -> Lowered:
    """The stages, the order, the memory and the budget that a loader runs with."""
    return loader._rank.share.lowered


def runs_of(loader: ps.Loader) -> list[Any]:
    """The run of stages, if there is one, with the place where its next item begins."""
    return loader._rank.items.runs


def is_awaited(loader: ps.Loader) -> bool:
    """Whether a batch of the loader is awaited now."""
    return any(run._channels[-1]._takers for run, *_ in runs_of(loader))


def child_of(loader: ps.Loader) -> Any:
    """The child process of a loader with isolation="process"."""
    return loader._rank.items._child


def orders_of(loader: ps.Loader) -> list[BatchOrder]:
    """The order of the batches, and those of what lane stages get."""
    lowered = lowered_of(loader)
    return [lowered.order, *(feed.order for feed in lowered.lanes.feeds)]


def made_bytes(loader: ps.Loader) -> int:
    """Bytes of memory that a loader ever made for batches and records."""
    return sum(slots.made_bytes for slots in lowered_of(loader).slots)


@contextmanager
def with_rules(rules: Sequence[Rule]) -> Iterator[None]:
    """Plans are lowered with these rules of the optimiser alone."""
    usual = lowering.RULES, lowering.SAME_ROWS
    lowering.RULES, lowering.SAME_ROWS = tuple(rules), tuple(rule for rule in usual[1] if rule in rules)
    try:
        yield
    finally:
        lowering.RULES, lowering.SAME_ROWS = usual
