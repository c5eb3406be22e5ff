"""What stands above lane stages in epochs that end with their data, as `concat`, `mix`, `zip`, `take` and `skip` do: the same batches on any number of ranks, from any state on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

import numpy as np
import pytest

import penstock as ps
from promises.test_natural_ends import SIZE, doubled, early, kept, numbers, odd, parts, passes, third
from support.promises import assert_same
from support.seams import lowered_of
from support.tries import tries

Rows = Mapping[str, Any]
Lanes = list[list[int]]
LANES = 6


def few(batch: Rows) -> Any:
    return (batch["x"] < 30) | (batch["x"] > 100)


def named(count: int, first: int = 0) -> ps.Dataset:
    return ps.from_arrays({"name": np.arange(first, first + count)})


def odd_name(batch: Rows) -> Any:
    return batch["name"] % 2 == 1


def lanes_of(base: ps.Dataset, gives: Callable[[list[int]], list[int]]) -> Lanes:
    """What a stage makes of each lane, by the order of its input alone; the data is its row ids and a number."""
    with ps.Loader(base.batch(1)) as loader:
        values = [int(batch["x"][0]) for batch in loader]
    with ps.Loader(base.batch(SIZE, lanes=LANES)) as loader:
        order = lowered_of(loader).order.rows
    rows = [order.ids(0, lane, 0, int(order.lane_rows()[lane])).tolist() for lane in range(LANES)]
    return [gives([values[row] for row in lane]) for lane in rows]


def joined(*each: Lanes) -> Lanes:
    return [[*chain.from_iterable(lanes)] for lanes in zip(*each, strict=True)]


def in_turn(lanes: Lanes) -> list[int]:
    """The rows of an epoch: equal parts while all lanes have rows, then what is left, lane after lane."""
    turn = SIZE // LANES
    even = min(map(len, lanes)) // turn
    steps = [lane[step * turn : (step + 1) * turn] for step in range(even) for lane in lanes]
    return [*chain.from_iterable(steps), *chain.from_iterable(lane[even * turn :] for lane in lanes)]


def without(lanes: Lanes, gone: set[int]) -> Lanes:
    return [[row for row in lane if row not in gone] for lane in lanes]


A, B, C = numbers(150), numbers(140, 1000), numbers(45, 5000)
LANES_A, LANES_B, LANES_C = lanes_of(A, kept(few)), lanes_of(B, kept(third)), lanes_of(C, list)
A_FEW, B_THIRD = A.filter(few), B.filter(third)
BOTH = joined(LANES_A, LANES_B)


def twice(lanes: Lanes) -> Lanes:
    return [[int(x) for group in parts(lane, 7) for x in doubled({"x": np.array(group)})["x"]] for lane in lanes]


#: Plans, and what lanes give by hand; None where only one rank says.
PLANS: dict[str, tuple[ps.Dataset, Lanes | None]] = {
    "concat": (ps.concat([A_FEW, B_THIRD, C]), joined(BOTH, LANES_C)),
    "concat with nothing of one": (ps.concat([C, A.filter(early).filter(lambda batch: batch["x"] < 0)]), LANES_C),
    "below another stage": (ps.concat([A_FEW, B_THIRD]).flat_map(doubled, rows=7), twice(BOTH)),
    "nested": (ps.concat([ps.concat([A_FEW, C]).filter(third), B_THIRD]).flat_map(doubled, rows=7), None),
    "skip": (A_FEW.skip(31), without(LANES_A, {*in_turn(LANES_A)[:31]})),
    "skip more than equal parts": (A_FEW.skip(70), without(LANES_A, {*in_turn(LANES_A)[:70]})),
    "take after skip": (A_FEW.skip(7).take(40), None),
    "of parts": (ps.concat([A_FEW.take(20), B_THIRD.skip(8)]), None),
    "mix": (ps.mix([A_FEW, B_THIRD, C], weights=[3, 1, 1]), None),
    "mix of a concat": (ps.mix([ps.concat([A_FEW, C]), B_THIRD.skip(3)]), None),
    "shuffled": (ps.concat([A.shuffle(seed=1).filter(odd), B.shuffle(seed=2).filter(third)]), None),
    "zip": (ps.zip([numbers(90).filter(odd), named(90).filter(odd_name)]), None),
}


@pytest.fixture(params=PLANS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def plan_of(name: str) -> ps.Dataset:
    return PLANS[name][0].batch(SIZE, lanes=LANES, wrap=True)


def test_rows_by_hand(name: str) -> None:
    base, lanes = PLANS[name]
    ((batches, again), _) = passes(base.batch(SIZE, lanes=LANES), epochs=2)
    rows = [*chain.from_iterable(batch["x"].tolist() for batch in batches)]
    assert len(rows) == sum(len(batch["x"]) for batch in again) or name in ("shuffled", "nested", "below another stage")
    assert [len(batch["x"]) for batch in batches[:-1]] == [SIZE] * (len(batches) - 1)
    if lanes is not None:
        assert rows == in_turn(lanes)
    for batch in batches:
        if "name" in batch and name == "zip":
            assert batch["x"].tolist() == batch["name"].tolist()


def test_take_and_skip_are_all_rows() -> None:
    whole = in_turn(LANES_A)
    for count in (0, 1, 5, 24, 50, len(whole) - 1, len(whole)):
        found = list[int]()
        for part in [A_FEW.take(count)] * (count > 0) + [A_FEW.skip(count)] * (count < len(whole)):
            (batches,), _ = passes(part.batch(SIZE, lanes=LANES))
            found += chain.from_iterable(batch["x"].tolist() for batch in batches)
        assert sorted(found) == sorted(whole)


def test_a_mix_keeps_its_weights_and_ends_with_the_first() -> None:
    plan = ps.mix([A_FEW, B_THIRD, C], weights=[3, 1, 1], source="from").batch(SIZE, lanes=LANES)
    (batches,), _ = passes(plan)
    for batch in batches[:-1]:
        given = np.bincount(batch["from"], minlength=3)
        assert np.abs(given - SIZE * np.array([0.6, 0.2, 0.2])).max() <= 2
    rows = [*chain.from_iterable(batch["x"].tolist() for batch in batches)]
    assert len({*rows}) == len(rows)
    a_lane_is_over = [{*lane} <= {*rows} for lanes in (LANES_A, LANES_B, LANES_C) for lane in lanes]
    assert any(a_lane_is_over)
    assert plan.count_rows() == [len(rows)]


def test_a_mix_that_ends_with_a_poor_lane_says_so() -> None:
    def is_elsewhere(batch: Rows) -> Any:
        return (batch["x"] - 1000) // (SIZE // LANES) % LANES > 0

    plan = ps.mix([B.filter(is_elsewhere), A]).batch(SIZE, lanes=LANES, drop_last=True)
    assert "(fewer lanes take more rows of one that is filtered strongly)" in plan.explain()
    words = "has no batch: the mix ends where a lane has no row left of a dataset, and gave"
    with ps.Loader(plan) as loader, pytest.warns(UserWarning, match=words):
        assert list(loader) == []


@pytest.mark.slow
def test_any_state_resumes_on_any_ranks(name: str) -> None:
    plan = plan_of(name)
    (first, second), _ = passes(plan, epochs=2)
    whole = [*first, *second]
    worlds = [(1, 1), (4, 3), (1, 1), (12, 1), (3, 8)]
    for number, steps in enumerate(range(1, len(whole), 1 + len(whole) // tries(60, at_least=5))):
        before, after = worlds[number % len(worlds)]
        if number == 1:
            plan.count_rows(epochs=2)  # until then one rank finds the ends
        begun, state = passes(plan, before, steps=steps, epochs=2)
        found, _ = passes(plan, after, state=state, epochs=2 if steps < len(first) else 1)
        rest = [*chain.from_iterable(begun), *chain.from_iterable(found)]
        for step, (here, wanted) in enumerate(zip(rest, whole, strict=True)):
            assert_same(here, wanted, f"from {before} to {after} ranks after {steps} steps, step {step}")


@pytest.mark.slow
@pytest.mark.parametrize("chosen", ["concat", "mix", "skip"])
def test_in_a_process_of_its_own(chosen: str) -> None:
    plan = plan_of(chosen)
    (whole,), _ = passes(plan)
    with ps.Loader(plan, isolation="process") as loader:
        found = [batch["x"].tolist() for batch in loader]
    assert found == [batch["x"].tolist() for batch in whole]


@pytest.mark.filterwarnings("ignore:epoch .* has no batch")
def test_pairs_that_are_not_equally_many_are_an_error() -> None:
    plan = ps.zip([numbers(90).filter(odd), named(90).filter(lambda batch: batch["name"] < 60)]).batch(
        SIZE, lanes=LANES
    )
    words = r"zip: dataset 0 gave .*45.* rows in epoch 0, and dataset 1 .*60"
    with ps.Loader(plan) as loader, pytest.raises(ps.DataError, match=words):
        list(loader)
    with pytest.raises(ps.DataError, match=words):
        plan.count_rows()


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (lambda: ps.concat([A_FEW, C]).batch(8, steps=3), r"concat\(…\) after filter"),
        (lambda: A_FEW.skip(3).batch(8, steps=3), r"skip\(…\) after filter"),
        (lambda: A_FEW.skip(3).filter(odd), r"skip\(…\) after filter"),
        (lambda: ps.mix([ps.concat([A_FEW, C]), B], rows=80), r"concat\(…\) after filter"),
        (lambda: ps.mix([A_FEW, C], stop="all_exhausted").batch(8), r"batch\(8, steps=1000\)"),
        (lambda: ps.mix([A_FEW, C]).filter(odd).batch(8), r"batch\(8, steps=1000\)"),
        (lambda: ps.zip([A_FEW, named(150)], on="x"), "looks for keys before anything runs"),
        (lambda: ps.zip([A_FEW.skip(3), named(150)]), r"zip\(\[…\]\)\.skip"),
        (lambda: ps.zip([A_FEW, named(150)], strict=False), "strict=False"),
        (lambda: ps.zip([A.shuffle(seed=0).filter(odd), named(150)]), r"zip\(\[…\]\)\.shuffle"),
    ],
)
def test_what_has_no_exact_meaning_is_refused(refused: Any, words: str) -> None:
    with pytest.raises(ps.PlanError, match=words):
        refused()


def test_explain_says_where_an_epoch_ends() -> None:
    words = ps.concat([A_FEW, C]).batch(SIZE).explain()
    assert "an epoch ends where filter(few) and in_lanes have given all of their rows" in words
    words = ps.mix([A_FEW, C]).batch(SIZE).explain()
    assert "an epoch ends where a lane of" in words


def test_simulate_says_what_it_cannot() -> None:
    plan = ps.concat([A_FEW, C]).batch(SIZE)
    with pytest.raises(ps.PlanError, match=r"simulate: rows of filter.* are joined"):
        plan.simulate()


@pytest.mark.parametrize("others", [lambda: named(48), lambda: named(48).filter(odd_name)])
def test_zip_of_rows_that_lanes_are_dealt_otherwise_is_refused(others: Any) -> None:
    with pytest.raises(ps.PlanError, match="96 rows of dataset 0 and 48 of dataset 1, so that others would meet"):
        ps.zip([numbers(96).filter(odd), others()])
