"""A verb is written in two places, a node and a row of orders, and all that others must know of it follows from its traits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

import penstock as ps
from penstock.order.protocol import RowOrder
from penstock.order.rows.chosen import Chosen, ChosenRows
from penstock.plan.nodes.rows import RowChoice
from penstock.plan.saved import SavedPlan
from penstock.resolve.orders import ORDERS, Below
from support.promises import assert_same, keep


@dataclass(frozen=True, kw_only=True)
class Reverse(RowChoice):
    """All rows, the last one first."""

    verb: str = "reverse"

    reads_by_number = True

    def rows_of(self, below: Sequence[int]) -> int:
        return below[0]

    def none_left(self, below: int) -> str:
        return "reverse: there are no rows"


def _reversed(_: Reverse, below: Below) -> ChosenRows:
    (found,) = below.rows
    if isinstance(found, RowOrder):
        raise ps.PlanError("reverse: must come before shuffle")
    return Chosen.of_ids(found.ids(np.arange(found.rows)[::-1]))


@pytest.fixture(autouse=True)
def _table() -> Iterator[None]:
    ORDERS[Reverse] = _reversed
    yield
    del ORDERS[Reverse]


def backwards(data: ps.Dataset) -> ps.Dataset:
    """What a method of Dataset does."""
    return data._then(Reverse(input=data.root))


def data(rows: int = 20) -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(rows), "y": np.arange(rows) * 2})


def column(plan: ps.Dataset, name: str = "x") -> list[int]:
    with ps.Loader(plan.batch(4), rank=0, world_size=1) as loader:
        return [int(value) for batch in loader for value in batch[name]]


def doubled(batch: dict) -> dict:
    return {name: values * 2 for name, values in batch.items()}


def test_it_orders_rows() -> None:
    assert column(backwards(data())) == [*range(20)][::-1]
    assert column(backwards(data().skip(5)).take(3)) == [19, 18, 17]
    assert len(backwards(data().take(7))) == 7
    assert column(ps.concat([backwards(data(3)), data(4)])) == [2, 1, 0, 0, 1, 2, 3]


def test_it_goes_with_all_other_verbs() -> None:
    assert column(ps.zip([backwards(data().select("x")), data().select("y")]), "y") == [*range(0, 40, 2)]
    assert column(backwards(data()).map(doubled)) == [*range(0, 40, 2)][::-1]
    assert column(backwards(data()).filter(ps.col("x") > 16)) == [19, 18, 17]
    assert sorted(column(backwards(data()).shuffle(seed=1))) == [*range(20)]
    assert sorted(column(backwards(data()).shuffle(seed=1).repeat(2))) == sorted([*range(20)] * 2)
    assert column(backwards(data().cache())) == column(backwards(data()).cache()) == [*range(20)][::-1]
    assert sorted(column(ps.mix([backwards(data()), data()], rows=40))) == sorted([*range(20)] * 2)


def test_it_is_checked() -> None:
    with pytest.raises(ps.PlanError, match="reverse: must come before batch, since it counts rows and not batches"):
        backwards(data().batch(4))
    with pytest.raises(ps.PlanError, match="reverse: cannot follow flat_map"):
        backwards(data().flat_map(doubled))
    with pytest.raises(ps.PlanError, match="reverse: this source can only be read in one order"):
        backwards(ps.from_iterable(lambda: iter([{"x": 1}]), spool=False, samples=1))
    with pytest.raises(ps.PlanError, match="zip: dataset 0 has 20 rows and dataset 1 has 19"):
        ps.zip([backwards(data().select("x")), data().select("y").skip(1)])


def test_it_is_looked_through() -> None:
    """Columns that nobody uses are not read below it, and it is part of what decides a state."""
    plan = backwards(data()).select("x").batch(4)
    assert "columns=[x]" in plan.explain().partition("Plan as it runs")[2]
    assert SavedPlan.of(plan.root).order_digest != SavedPlan.of(data().select("x").batch(4).root).order_digest
    assert "reverse" in SavedPlan.of(plan.root).plan


def test_ranks_and_resume() -> None:
    plan = backwards(data()).shuffle(seed=3).batch(4)
    with ps.Loader(plan, rank=0, world_size=1) as whole:
        wanted = [keep(batch) for batch in whole]
    shares = []
    for rank in range(2):
        with ps.Loader(plan, rank=rank, world_size=2) as loader:
            next(iter(loader))
            state = loader.state_dict()
        with ps.Loader(plan, rank=rank, world_size=2) as loader:
            loader.load_state_dict(state)
            shares.append([keep(batch) for batch in loader])
    for step, batch in enumerate(wanted[1:]):
        halves = [shares[rank][step] for rank in range(2)]
        assert_same({name: np.concatenate([half[name] for half in halves]) for name in batch}, batch, f"step {step}")
