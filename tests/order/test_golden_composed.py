"""The orders of composed plans are a promise too. Add to golden/orders.json with its script, and change nothing in it."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from inspect import isabstract
from typing import Any

import pytest

import penstock as ps
from golden import make_orders
from penstock import order as orders
from penstock.order.protocol import RowOrder
from penstock.order.rows.by_id import ListedRows
from penstock.order.rows.chosen import Chosen
from penstock.order.rows.segments import Segments
from penstock.order.steps.batches import BatchOrder
from support.seams import orders_of

GOLDEN = json.loads(make_orders.FILE.read_text())
PLANS = make_orders.plans()


@pytest.mark.parametrize("name", GOLDEN)
def test_the_order_of_a_composed_plan_stays(name: str) -> None:
    wanted = {key: value for key, value in GOLDEN[name].items() if key != "saved"}
    assert make_orders.figures(PLANS[name]) == wanted


@pytest.mark.parametrize("name", [name for name in GOLDEN if "saved" in GOLDEN[name]])
def test_where_lanes_stood_is_loaded(name: str) -> None:
    """From a state of the version that pinned the plan."""
    saved, rows = json.loads(GOLDEN[name]["saved"]), json.loads(GOLDEN[name]["rows"])
    with ps.Loader(PLANS[name], rank=0, world_size=1) as loader:
        loader.load_state_dict({**loader.state_dict(), **saved})
        batches = [batch["n" if "n" in batch else "tokens"].tolist() for _ in range(2) for batch in loader]
    found = [row for batch in batches for row in batch]
    assert found
    assert found == rows[-len(found) :]
    assert "to the end" in name or len(found) == len(rows) - 42 * 4


def test_every_plan_is_pinned() -> None:
    assert PLANS.keys() == GOLDEN.keys()


def test_every_order_is_in_a_plan_that_is_pinned() -> None:
    """Each class of penstock/order that says which row comes when."""
    for module in pkgutil.iter_modules(orders.__path__, "penstock.order."):
        importlib.import_module(module.name)
    all_kinds = {*_kinds(RowOrder), *_kinds(BatchOrder), BatchOrder, Segments, Chosen}
    all_kinds = {kind for kind in all_kinds if kind.__module__.startswith("penstock.") and not isabstract(kind)}
    all_kinds = {kind for kind in all_kinds if not issubclass(kind, ListedRows)}  # rows that are asked for by their ids
    assert len(all_kinds) > 10
    assert all_kinds <= {kind for plan in PLANS.values() for kind in _orders_of(plan)}


def _kinds(kind: type) -> Iterator[type]:
    for below in kind.__subclasses__():
        yield below
        yield from _kinds(below)


def _orders_of(plan: ps.Dataset) -> set[type]:
    """The classes of all that a plan's order is made of."""
    with ps.Loader(plan, rank=0, world_size=1) as loader:
        return {kind for order in orders_of(loader) for kind in _parts(order)}


def _parts(value: Any) -> Iterator[type]:
    if isinstance(value, tuple):
        for one in value:
            yield from _parts(one)
    elif is_dataclass(value) and type(value).__module__.startswith("penstock.order."):
        yield type(value)
        for field in fields(value):
            yield from _parts(vars(value)[field.name])
