"""What `explain` says of a plan's order is true: by the batches themselves, of every kind of plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps

GOES_ON = "every epoch continues where the one before ended"


def numbers(rows: int = 120, first: int = 0) -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(first, first + rows)})


def mixed(seed: int = 1) -> ps.Dataset:
    return ps.mix([numbers().shuffle(seed=seed), numbers(60, 500)], weights=[2, 1])


def some(batch: Mapping[str, Any]) -> Any:
    return batch["x"] % 7 > 0


def same(batch: Mapping[str, Any]) -> Mapping[str, Any]:
    return batch


def texts(rows: int = 90) -> ps.Dataset:
    tokens = [[row] * (1 + row % 9) for row in range(rows)]
    return ps.from_arrays({"x": pa.array(tokens, pa.large_list(pa.int64()))})


#: Of each kind of plan: which rows its steps take, "natural", "shuffled" or neither, and whether its epochs go on where the one before ended.
PLANS: dict[str, tuple[Callable[[], ps.Dataset], str, bool]] = {
    "as it is": (lambda: numbers().batch(10), "natural", False),
    "a last, short batch": (lambda: numbers(115).batch(10, drop_last=False), "natural", False),
    "one lane": (lambda: numbers().batch(10, lanes=1), "natural", False),
    "shuffled": (lambda: numbers().shuffle(seed=1).batch(10), "shuffled", False),
    "each row by itself": (lambda: numbers().shuffle(seed=1, mode="global").batch(10), "shuffled", False),
    "steps": (lambda: numbers().batch(10, steps=7), "", True),
    "steps, shuffled": (lambda: numbers().shuffle(seed=1).batch(10, steps=7), "shuffled", True),
    "concat": (lambda: ps.concat([numbers(), numbers(30, 200)]).batch(10), "natural", False),
    "concat of shuffled": (lambda: ps.concat([numbers().shuffle(seed=1), numbers(30, 200).shuffle(seed=2)]).batch(10), "shuffled", False),
    "concat of mixes": (lambda: ps.concat([mixed(1), mixed(2)]).batch(10, lanes=5), "shuffled", False),
    "zip": (lambda: ps.zip([numbers(), ps.from_arrays({"y": np.arange(120)})]).batch(10), "natural", False),
    "zip, shuffled": (lambda: ps.zip([numbers(), ps.from_arrays({"y": np.arange(120)})]).shuffle(seed=1).batch(10), "shuffled", False),
    "take, skip, every": (lambda: numbers().skip(7).every(2).take(50).batch(10), "natural", False),
    "take of shuffled": (lambda: numbers().shuffle(seed=1).take(50).batch(10), "shuffled", False),
    "filter, sort": (lambda: numbers().filter(ps.col("x") % 2 == 0).sort("x", descending=True).batch(10), "natural", False),
    "split, shuffled": (lambda: numbers().split({"a": 0.5, "b": 0.5})["a"].shuffle(seed=3).batch(10), "shuffled", False),
    "repeat": (lambda: numbers().repeat(2).batch(10), "", False),
    "repeat of shuffled": (lambda: numbers().shuffle(seed=1).repeat(2).batch(10), "shuffled", False),
    "mix": (lambda: ps.mix([numbers(), numbers(60, 500)], weights=[2, 1]).batch(10), "", False),
    "mix, all": (lambda: ps.mix([numbers(), numbers(40, 500)], stop="all_exhausted").batch(10), "", False),
    "mix of so many rows": (lambda: ps.mix([numbers(), numbers(60, 500)], weights=[2, 1], rows=50).batch(10), "", True),
    "mix, one shuffled": (lambda: mixed().batch(10), "shuffled", False),
    "bucketed": (lambda: numbers().batch_bucketed(10, by=[row % 40 for row in range(120)], boundaries=[20]), "", False),
    "bucketed, shuffled": (lambda: numbers().shuffle(seed=1).batch_bucketed(10, by=[row % 40 for row in range(120)], boundaries=[20]), "shuffled", False),
    "tokens": (lambda: texts().batch_tokens(60, by=[1 + row % 9 for row in range(90)], lanes=2), "", False),
    "tokens, shuffled": (lambda: texts().shuffle(seed=1).batch_tokens(60, by=[1 + row % 9 for row in range(90)], lanes=2), "shuffled", False),
    "filter by a function": (lambda: numbers().filter(some).batch(10, steps=7), "", True),
    "the same, shuffled": (lambda: numbers().shuffle(seed=1).filter(some).batch(10, steps=7), "shuffled", True),
    "mix, shuffle, pack": (lambda: ps.mix([texts(), texts(40)]).shuffle(seed=1).pack("x", length=12).batch(4, steps=7), "shuffled", True),
    "mix above packs": (lambda: ps.mix([texts().shuffle(seed=1).pack("x", length=12), texts(40).pack("x", length=12)]).batch(4, steps=7), "shuffled", True),
    "one after another": (lambda: numbers().shuffle(seed=1).filter(some).flat_map(same, rows=4).batch(10, steps=7), "shuffled", True),
    "the same, not shuffled": (lambda: numbers().filter(some).flat_map(same, rows=4).batch(10, steps=7), "", True),
    "a filter in a mix": (lambda: ps.mix([numbers().filter(some), numbers(60, 500)], rows=50).batch(10), "", True),
}  # fmt: skip


def order_of(plan: ps.Dataset) -> str:
    found = plan.explain()
    return found[found.index("Order\n") : found.index("Stages\n")]


def epochs_of(plan: ps.Dataset, count: int = 2) -> list[list[list[Any]]]:
    with ps.Loader(plan, rank=0, world_size=1) as loader:
        return [[rows_of(batch["x"]) for batch in loader] for _ in range(count)]


def rows_of(column: Any) -> list[Any]:
    found: list[Any] = column.tolist()
    return found


@pytest.mark.parametrize("name", PLANS)
def test_what_is_said_of_the_order_is_so(name: str) -> None:
    make, word, goes_on = PLANS[name]
    plan = make()
    said, (first, second) = order_of(plan), epochs_of(plan)
    assert ("natural" in said) == (word == "natural")
    assert ("shuffled" in said) == (word == "shuffled")
    assert (GOES_ON in said) == goes_on
    assert (first != second) == (word == "shuffled" or goes_on), "two epochs differ by chance, or as they go on"
    if word == "natural":
        rows = [row for batch in first for row in batch]
        assert rows == sorted(rows, reverse=rows[0] > rows[-1]), "step k is rows k × batch size and the following"


def test_what_a_first_batch_costs() -> None:
    """In words, and so it is: rows that a window or a function takes together have to be read before anything comes out."""
    rows = [[row] * 5 for row in range(3_000)]
    long = ps.from_arrays({"x": pa.array(rows, pa.large_list(pa.int64()))}).shuffle(seed=0)
    said = order_of(long.pack("x", length=128).batch(16, steps=40))
    assert "needs at least 3,000 rows before pack(x): 187 to 188 together in each of 16 lanes" in said
    said = order_of(long.pack("x", length=128, window=50).batch(16, steps=40))
    assert "needs at least 800 rows before pack(x): 50 together in each of 16 lanes" in said
    said = order_of(long.pack("x", length=128, strategy="concat").batch(16, steps=40))
    assert "needs as many rows before pack(x) as fill 16 sequences" in said
    said = order_of(numbers(16).flat_map(same).batch(4, steps=9))
    assert "needs at least 16 rows before flat_map(same): 4 together in each of 4 lanes" in said
    said = order_of(numbers().filter(some).flat_map(same, rows=3).batch(4, steps=9))
    assert "needs at least 12 rows before flat_map(same): 3 together in each of 4 lanes" in said
    assert "needs at least 12 rows before filter(some), and more where it leaves some out" in said
