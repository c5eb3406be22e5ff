"""What a plan says that an epoch holds: checked against what its epochs do hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

import penstock as ps
from penstock.order.epoch_contents import contents_of
from penstock.order.steps.token_batches import TokenBatches
from promises.test_ledger import PLANS
from support.seams import lowered_of


@pytest.mark.parametrize("name", PLANS)
def test_epochs_hold_what_is_said(name: str) -> None:
    with ps.Loader(PLANS[name](), rank=0, world_size=1) as loader:
        order = lowered_of(loader).order
    said = contents_of(order)
    assert said.steps == order.steps_per_epoch
    assert said.runs is not None
    most = {first + distance * row: times for first, count, distance, times in said.runs for row in range(count)}
    for epoch in range(2):
        ids = [order.ids(epoch, step, 1, 0, 1) for step in range(said.steps)]
        has_places = isinstance(order, TokenBatches)  # these are what last_rows counts, with those that no row has
        assert (order.batch_size if has_places else len(ids[-1])) == said.last_rows
        valid = np.concatenate([order.valid(step, 0, 1)[: len(one)] for step, one in enumerate(ids)])
        if order.last.value in ("short", "drop"):
            valid[:] = True
        found = Counter(np.concatenate(ids)[valid].tolist())
        assert found.total() == said.rows
        assert all(count <= (most[row] or count) for row, count in found.items())
        if sum(most.values()) == said.rows:
            assert found == Counter(most)


def runs_of(make: Callable[[ps.Dataset], ps.Dataset]) -> object:
    with ps.Loader(make(ps.from_arrays({"id": np.arange(100)})), rank=0, world_size=1) as loader:
        return contents_of(lowered_of(loader).order).runs


def test_neighbouring_runs_are_one() -> None:
    assert runs_of(lambda data: ps.concat([data, data]).batch(10)) == ((0, 200, 1, 1),)
    assert runs_of(lambda data: data.batch_bucketed(10, by=np.arange(100) % 3, boundaries=[1, 2])) == ((0, 100, 1, 1),)
    assert runs_of(lambda data: data.every(10).shuffle(seed=1).repeat(2).batch(10)) == ((0, 10, 10, 2),)
    assert runs_of(lambda data: ps.concat([data.shuffle(seed=1), data.repeat(3)]).batch(10)) == (
        (0, 100, 1, 1),
        (100, 100, 1, 3),
    )


def test_where_the_runs_are_too_many_none_are_said() -> None:
    chosen = [(2 * number, 1) for number in range(5_000)]
    data = ps.from_arrays({"id": np.arange(10_001)})
    parts = [data.skip(first).take(count) for first, count in chosen[:3]]
    assert runs_of(lambda _: ps.concat(parts).batch(3)) == ((0, 1, 1, 1), (10_003, 1, 1, 1), (20_006, 1, 1, 1))
    assert runs_of(lambda _: data.every(2).batch_bucketed(10, by=np.zeros(5_001), boundaries=[1])) is None
