"""Every argument of every verb with values that no one should give: a PenstockError in our words, at once and in little memory, or it works."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import penstock as ps
from support.damage import bounded_memory
from support.hostile_values import ROWS, VALUES, data, outcome, words


class Masking:
    """A predicate that returns what it was made of; a closure's values would be digested, which the test is not about."""

    def __init__(self, mask: Any) -> None:
        self.mask = [mask].pop

    def __call__(self, _: Any) -> Any:
        return self.mask()


def pairs(*names: str) -> list[ps.Dataset]:
    return [ps.from_arrays({name: np.arange(ROWS)}) for name in names]


def mixed(**options: Any) -> ps.Dataset:
    return ps.mix([data(), data()], **options).batch(2)


def set_weights(weights: Any, number: Any = 0) -> ps.Loader[Any]:
    loader = ps.Loader(ps.mix([data(), data()], rows=8).batch(4))
    loader.set_weights(weights, mix=number)
    return loader


def loader(**options: Any) -> ps.Loader[Any]:
    return ps.Loader(data().shuffle().batch(4), **options)


def changed_state(**entries: Any) -> ps.Loader[Any]:
    found = loader()
    found.load_state_dict({**found.state_dict(), **entries})
    return found


def compared(value: Any) -> ps.Dataset:
    column = ps.col("x")
    return data().filter((column > value) | (column + value > 3) | column.is_in([value])).batch(2)


_BATCH = "size drop_last pad wrap lanes per_rank"
CASES: dict[str, Mapping[str, Callable[[Any], Any]]] = {
    "take": {"count": lambda value: data().take(value).batch(4)},
    "skip": {"count": lambda value: data().skip(value).batch(4)},
    "every": {"count": lambda value: data().every(value).batch(4)},
    "repeat": {"times": lambda value: data().repeat(value).batch(4)},
    "shuffle": words("seed mode block_rows window_blocks window", lambda given: data().shuffle(**given).batch(4)),
    "shard": {"samples": lambda value: data().shard(value).batch(4), "one": lambda value: data().shard([value]).batch(4)},
    "filter": {
        **words("predicate ahead progress", lambda given: data().filter(**given).batch(4, steps=3), predicate=ps.col("x") > 3),
        "mask": lambda value: data().filter(Masking(value), ahead=True).batch(4),
        "compared": compared,
        "column": lambda value: data().filter(ps.col(value) > 3).batch(4),
    },
    "flat_map": words("function rows", lambda given: data().flat_map(**given).batch(4, steps=3), function=dict),
    "pack": words(
        "columns length strategy window over_long padding_value",
        lambda given: data().pack(**given).batch(2, steps=3),
        columns="tokens",
        length=8,
    ),
    "batch": words(f"{_BATCH} steps", lambda given: data().batch(**given), size=4),
    "batch_padded": words(
        f"{_BATCH} steps columns multiple_of length truncate padding_value", lambda given: data().batch_padded(**given), size=4
    ),
    "batch_bucketed": {
        **words(
            f"{_BATCH} by columns boundaries multiple_of padding_value progress",
            lambda given: data().batch_bucketed(**given),
            size=4,
            by="tokens",
            boundaries=[2, 4],
        ),
        "quantiles": lambda value: data().batch_bucketed(4, by="tokens", quantiles=value),
        "boundaries": lambda value: data().batch_bucketed(4, by="tokens", boundaries=[value]),
        "by": lambda value: data().batch_bucketed(4, by=[value] * ROWS, boundaries=[2]),
    },
    "batch_tokens": {
        **words(
            "max_tokens by padded fill columns multiple_of padding_value drop_last lanes progress",
            lambda given: data().batch_tokens(**given),
            max_tokens=64,
            by="tokens",
        ),
        "by": lambda value: data().batch_tokens(64, by=[value] * ROWS),
    },
    "split": {
        **words("parts by stratify seed progress", lambda given: data().split(**given), parts={"a": 0.5, "b": 0.5}),
        "share": lambda value: data().split({"a": value, "b": 0.5}),
    },
    "balance": words("column mode seed progress", lambda given: data().balance(**given).batch(2), column="y"),
    "sample": {
        **words("count weights replacement seed progress", lambda given: data().sample(**given).batch(2), count=5),
        "weights": lambda value: data().sample(5, weights=[value] * ROWS, replacement=True).batch(2),
        "count": lambda value: data().sample(value, replacement=True).batch(2),
    },
    "sort": words("by descending progress", lambda given: data().sort(**given).batch(2), by="x"),
    "concat": {
        "datasets": lambda value: ps.concat(value).batch(2),
        "one": lambda value: ps.concat([data(), value]).batch(2),
        "source=": lambda value: ps.concat([data(), data()], source=value).batch(2),
    },
    "zip": {
        "datasets": lambda value: ps.zip(value).batch(2),
        "one": lambda value: ps.zip([data(), value]).batch(2),
        "strict=": lambda value: ps.zip(pairs("a", "b"), strict=value).batch(2),
    },
    "mix": {
        "datasets": lambda value: ps.mix(value).batch(2),
        **words("weights stop rows source", lambda given: mixed(**given)),
        "weight": lambda value: mixed(weights=[1, value]),
        "step": lambda value: mixed(weights=[(0, [1, 1]), (value, [2, 1])], rows=8),
        "later": lambda value: mixed(weights=[(0, [1, 1]), (1, value)], rows=8),
    },
    "set_weights": {
        "weights": set_weights,
        "weight": lambda value: set_weights([1, value]),
        "mix=": lambda value: set_weights([1, 2], value),
    },
    "merge_states": {
        "states": ps.merge_states,
        "state": lambda value: ps.merge_states([value]),
        "lanes": lambda value: ps.merge_states([{"lanes": value}]),
    },
    "state": {
        "all": lambda value: loader().load_state_dict(value),
        **words("version data samples epoch step plan details weights", lambda given: changed_state(**given)),
    },
    "Loader": {
        **words("to structure rank world_size memory cpus prefetch epochs", lambda given: loader(**given)),
        "ranks": lambda value: loader(rank=0, world_size=value),
        "rank": lambda value: loader(rank=value, world_size=2),
        "batch_at": lambda value: loader().batch_at(value, 0),
        "set_epoch": lambda value: loader().set_epoch(value),
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("verb", "argument"), [(verb, argument) for verb, cases in CASES.items() for argument in cases]
)
def test_hostile_values(verb: str, argument: str) -> None:
    with bounded_memory():
        found = {name: outcome(CASES[verb][argument], make()) for name, make in VALUES.items()}
    assert not {name: wrong for name, wrong in found.items() if wrong}
