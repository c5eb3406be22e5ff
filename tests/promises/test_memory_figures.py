"""What a loader says of its memory agrees with itself, at every step and in every place that shows it."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import penstock as ps


def base() -> ps.Dataset:
    return ps.from_arrays({"x": np.zeros((4_000, 1_000), dtype=np.uint8), "n": np.arange(4_000)})


PLANS: dict[str, Callable[[], ps.Dataset]] = {
    "gathered": lambda: base().shuffle(seed=0).batch(64),
    "a function": lambda: base().shuffle(seed=0).map(lambda batch: {**batch, "y": batch["x"] + 1}).batch(64),
    "lane stages": lambda: base().filter(lambda batch: batch["n"] % 3 > 0).filter(lambda batch: batch["n"] % 5 > 0).batch(64, steps=60),
    "a mix": lambda: ps.mix([base().map(dict), base()]).shuffle(seed=0).batch(64),
}  # fmt: skip


@pytest.mark.parametrize("plan", PLANS)
def test_what_is_held_is_no_more_than_the_most_that_was(plan: str) -> None:
    with ps.Loader(PLANS[plan]()) as loader:
        for _ in loader:
            memory = loader.stats()["memory"]
            assert 0 <= memory["held_bytes"] <= memory["most_bytes"]  # 0 where all that was made is taken
            assert memory["most_bytes"] > 0
        shown = re.search(r"memory: ([\d,.]+) MB held, at most ([\d,.]+) MB", loader.report())
        assert shown is not None
        held, most = (float(number.replace(",", "")) for number in shown.groups())
        assert held <= most
    memory = loader.stats()["memory"]
    assert memory["held_bytes"] <= memory["most_bytes"], "of a loader that is closed, too"
