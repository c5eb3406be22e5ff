"""The order is a promise: saved states mean nothing if it changes. Change golden_order.json only with a major version."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.core import kernels
from penstock.order.steps.batches import Last
from support.orders import order_of

GOLDEN = json.loads((Path(__file__).parent / "golden_order.json").read_text())


def figures(case: dict[str, Any]) -> dict[str, Any]:
    order = order_of(**{**case["order"], "last": Last(case["order"].get("last", "short"))})
    first = order.ids(case["epoch"], 0, 1, 0, 1)
    every = [order.ids(case["epoch"], step, 1, 0, 1) for step in range(min(order.steps_per_epoch, 200))]
    digest = hashlib.sha256(np.concatenate(every).astype("<i8").tobytes()).hexdigest()
    return {"first": first[:24].tolist(), "sha256_of_200_steps": digest}


@pytest.mark.parametrize("name", GOLDEN["orders"])
def test_the_order_stays(name: str) -> None:
    case = GOLDEN["orders"][name]
    assert figures(case) == {key: case[key] for key in ("first", "sha256_of_200_steps")}, case["reason"]


def test_keys_stay() -> None:
    for case in GOLDEN["keys"]:
        assert kernels.mix(case["words"]) == case["key"]
