"""on_error="skip" on plans without a lane stage: an epoch ends where its data does, without the bad rows, and never takes rows of the next."""

from __future__ import annotations

import json
from itertools import chain

import pytest

import penstock as ps
from promises.test_one_pass import LASTS, ROWS, SIZE, epochs_of, numbers, on_ranks, resumed, seventh_fails


@pytest.mark.filterwarnings("ignore:.*bad sample")
@pytest.mark.parametrize("last", LASTS, ids=str)
def test_no_step_takes_rows_of_the_next_epoch(last: dict[str, bool]) -> None:
    plan = numbers().shuffle(seed=1).map_rows(seventh_fails).batch(SIZE, lanes=6, **last)
    good = {x for x in range(ROWS) if x % 7}
    plan.count_rows(epochs=2, on_error="skip")
    whole = epochs_of(plan, 2, on_error="skip")
    for epoch in whole:
        rows = [*chain.from_iterable(epoch)]
        assert len(epoch) == (len(good) // SIZE if last.get("drop_last") else -(-len(good) // SIZE))
        assert {*rows} <= good
        assert len({*rows}) == (len(good) // SIZE * SIZE if last.get("drop_last") else len(good))
    assert whole[0] != whole[1]
    for ranks in (2, 12)[: 2 if last else 1]:
        assert on_ranks(plan, ranks, 2, on_error="skip") == whole
    for steps in range(1, len(whole[0]), 4):
        assert resumed(plan, steps, on_error="skip") == whole[0]


@pytest.mark.parametrize("last", LASTS[:2], ids=str)
def test_without_a_bad_row_nothing_is_another(last: dict[str, bool]) -> None:
    for base in (
        numbers().map_rows(dict),
        numbers().shuffle(seed=1).map_rows(dict),
        ps.concat([numbers(), numbers()]).map_rows(dict),
    ):
        plan = base.batch(SIZE, **last)
        assert epochs_of(plan, 2, on_error="skip") == epochs_of(plan, 2)


def test_states_of_before_are_refused_where_they_counted_rows_of_all_epochs() -> None:
    plan = numbers().map_rows(dict).batch(SIZE, lanes=6)
    with ps.Loader(plan, on_error="skip") as loader:
        list(loader)
        next(iter(loader))
        state = json.loads(json.dumps(loader.state_dict()))
    state["lanes"] = {
        lane: [[row + ROWS // 6, used, kept, below]] for lane, [[row, used, kept, below]] in state["lanes"].items()
    }
    with (
        ps.Loader(plan, on_error="skip") as loader,
        pytest.raises(ps.StateError, match="epochs went on in one another"),
    ):
        loader.load_state_dict(state)
