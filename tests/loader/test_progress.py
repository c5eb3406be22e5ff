"""Where the next pass begins: after passes, after `set_epoch`, after `load_state_dict`, and after both."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps

STEPS = 5


@pytest.fixture
def make() -> Callable[..., ps.Loader]:
    """A loader of five steps an epoch, at the beginning or at a saved state."""

    def make(state: Any = None) -> ps.Loader:
        loader = ps.Loader(ps.from_arrays({"id": np.arange(43)}).shuffle(seed=3).batch(8, drop_last=True))
        if state is not None:
            loader.load_state_dict(json.loads(json.dumps(state)))
        return loader

    return make


def places(loader: ps.Loader, most: int | None = None) -> list[tuple[int, int]]:
    """The (epoch, step) of each batch of a pass, found by its rows."""
    known = {tuple(loader.sample_ids(epoch, step)): (epoch, step) for epoch in range(8) for step in range(len(loader))}
    return [known[tuple(batch["id"].tolist())] for batch in itertools.islice(loader, most)]


def epoch(number: int, first: int = 0) -> list[tuple[int, int]]:
    return [(number, step) for step in range(first, STEPS)]


@pytest.mark.parametrize("stop", range(1, 2 * STEPS + 1))
def test_the_usual_loop_goes_on_where_it_was_stopped(make: Callable[..., ps.Loader], stop: int) -> None:
    """As with a DistributedSampler: the checkpoint holds the number of the epoch, and set_epoch comes before every pass."""

    def train(first: int, state: Any, most: int) -> tuple[list[list[int]], int, Any]:
        seen: list[list[int]] = []
        with make(state) as loader:
            for number in range(first, 3):
                loader.set_epoch(number)
                for batch in loader:
                    seen.append(batch["id"].tolist())
                    if len(seen) == most:
                        return seen, number, loader.state_dict()
        return seen, 3, None

    whole, _, _ = train(0, None, 99)
    before, number, state = train(0, None, stop)
    after, _, _ = train(number, state, 99)
    assert len(whole) == 3 * STEPS
    assert before + after == whole


@pytest.mark.parametrize("times", [1, 2])
def test_set_epoch_keeps_a_loaded_position(make: Callable[..., ps.Loader], times: int) -> None:
    state = {**make().state_dict(), "epoch": 2, "step": 3}
    with make(state) as loader:
        for _ in range(times):
            loader.set_epoch(2)
        assert (loader.epoch, loader.step) == (2, 3)
        assert places(loader) == epoch(2, 3)
        assert places(loader) == epoch(3)


def test_another_epoch_moves(make: Callable[..., ps.Loader]) -> None:
    state = {**make().state_dict(), "epoch": 2, "step": 3}
    for others in [(3,), (1,), (3, 2), (1, 2)]:
        with make(state) as loader:
            for other in others:
                loader.set_epoch(other)
            assert places(loader) == epoch(others[-1])


def test_set_epoch_after_a_pass(make: Callable[..., ps.Loader]) -> None:
    with make() as loader:
        assert places(loader) == epoch(0)
        loader.set_epoch(0)
        assert places(loader) == epoch(0), "the epoch that just ended, again"
        assert places(loader, 2) == epoch(1)[:2]
        loader.set_epoch(1)
        assert places(loader) == epoch(1), "broken off, then from its beginning"
        assert places(loader, STEPS) == epoch(2)
        loader.set_epoch(2)
        assert places(loader) == epoch(2), "all of it taken, and not asked for more"


def test_a_loaded_position_is_kept_once(make: Callable[..., ps.Loader]) -> None:
    with make({**make().state_dict(), "epoch": 2, "step": 3}) as loader:
        assert places(loader, 1) == [(2, 3)]
        loader.set_epoch(2)
        assert places(loader) == epoch(2)


def test_own_state_after_a_broken_off_pass(make: Callable[..., ps.Loader]) -> None:
    with make() as loader:
        assert places(loader, 2) == epoch(0)[:2]
        loader.load_state_dict(loader.state_dict())
        loader.set_epoch(0)
        assert places(loader) == epoch(0, 2)


def test_a_state_after_the_last_batch(make: Callable[..., ps.Loader]) -> None:
    with make() as loader:
        assert places(loader, STEPS) == epoch(0)
        state = loader.state_dict()
    with make(state) as loader:
        assert (loader.epoch, loader.step) == (1, 0)
        assert places(loader) == epoch(1)
    with make(state) as loader:
        loader.set_epoch(0)
        assert json.dumps(loader.state_dict()) == json.dumps(state)
        assert places(loader) == [], "nothing is left of it"
        assert places(loader) == epoch(1)
    with make(state) as loader:
        loader.set_epoch(0)
        loader.set_epoch(0)
        loader.set_epoch(1)
        assert places(loader) == epoch(1)


def test_a_pass_begins_when_its_first_batch_is_taken(make: Callable[..., ps.Loader]) -> None:
    """Trainers ask for an iterator to see whether there is one, then for another, then set the epoch."""
    with make({**make().state_dict(), "epoch": 1, "step": 2}) as loader:
        iter(loader)
        passing = iter(loader)
        loader.set_epoch(1)
        assert len([*passing]) == STEPS - 2
        passing = iter(loader)
        loader.set_epoch(4)
        assert next(passing)["id"].tolist() == loader.sample_ids(4, 0).tolist()
        loader.set_epoch(4)
        with pytest.raises(ps.ProcessError, match=r"since set_epoch\(4\) was called"):
            next(passing)


def test_a_first_batch_that_failed_is_not_passed_over() -> None:
    bad = [True]

    def fails_once(batch: dict[str, Any]) -> dict[str, Any]:
        if bad:
            raise KeyError
        return batch

    loader = ps.Loader(ps.from_arrays({"id": np.arange(20)}).map(fails_once).batch(4))
    loader.load_state_dict({**loader.state_dict(), "epoch": 0, "step": 3})
    with pytest.raises(KeyError):
        next(iter(loader))
    bad.clear()
    assert [batch["id"][0] for batch in loader] == [12, 16]
    loader.close()
