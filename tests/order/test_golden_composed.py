"""The orders of composed plans are a promise too. Add to golden/orders.json with its script, and change nothing in it."""

from __future__ import annotations

import json

import pytest

from golden import make_orders

GOLDEN = json.loads(make_orders.FILE.read_text())
PLANS = make_orders.plans()


@pytest.mark.parametrize("name", GOLDEN)
def test_the_order_of_a_composed_plan_stays(name: str) -> None:
    assert make_orders.figures(PLANS[name]) == GOLDEN[name]


def test_every_plan_is_pinned() -> None:
    assert PLANS.keys() == GOLDEN.keys()
