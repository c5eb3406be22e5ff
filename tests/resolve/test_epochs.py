"""How many passes there will be: what is read ahead for passes that nobody makes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.core.errors import PlanError
from penstock.order.steps.cursor import Position, Work, works
from penstock.storage.fetch.remote import RemoteStorage
from support.caching import Noting


def ids(loader: ps.Loader, passes: int) -> list[list[int]]:
    return [np.concatenate([batch["x"] for batch in loader]).tolist() for _ in range(passes)]


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_more_passes_may_be_made_all_the_same(epochs: int) -> None:
    dataset = ps.from_arrays({"x": np.arange(103)}).shuffle(seed=0).batch(10)
    with ps.Loader(dataset) as free, ps.Loader(dataset, epochs=epochs) as bounded:
        assert ids(bounded, 4) == ids(free, 4)
        bounded.set_epoch(7)
        free.set_epoch(7)
        assert ids(bounded, 2) == ids(free, 2)


def test_a_state_goes_on_within_the_last_pass() -> None:
    dataset = ps.from_arrays({"x": np.arange(60)}).shuffle(seed=0).batch(10)
    with ps.Loader(dataset, epochs=2) as loader:
        first, (*_, last) = ids(loader, 1), itertools.islice(loader, 3)
        state = loader.state_dict()
        assert len(first[0]) == 60
        assert len(last["x"]) == 10
    with ps.Loader(dataset, epochs=2) as again, ps.Loader(dataset) as free:
        again.load_state_dict(state)
        free.load_state_dict(state)
        assert ids(again, 2) == ids(free, 2)


def test_nothing_is_read_for_passes_that_nobody_makes(tmp_path: Path) -> None:
    data, whole = tmp_path / "data", 3 * 128_000
    data.mkdir()
    for number in range(3):
        np.full(64_000, number, dtype=np.uint16).tofile(data / f"{number}.bin")

    def asked(log: Path) -> int:
        return sum(int(line.split()[2]) for line in log.read_text().splitlines())

    def after_a_pass(epochs: int | None) -> int:
        log = tmp_path / f"log {epochs}"
        storage = RemoteStorage(Noting(log))
        dataset = ps.read(str(data), storage=storage, format="tokens", dtype="uint16", window=100).batch(10)
        log.write_text("")  # what was looked at on opening
        with ps.Loader(dataset, epochs=epochs) as loader:
            assert sum(batch["tokens"].nbytes for batch in loader) == whole
            until = time.monotonic() + 60
            while epochs is None and asked(log) == whole and time.monotonic() < until:
                time.sleep(0.01)
        return asked(log)

    assert after_a_pass(1) == whole
    assert after_a_pass(None) > whole, "the next pass's first batches are read while this one ends"


def test_no_pass_at_all_is_a_mistake() -> None:
    dataset = ps.from_arrays({"x": np.arange(60)}).batch(10)
    with pytest.raises(PlanError, match="epochs=0; at least one pass"):
        ps.Loader(dataset, epochs=0)


def test_work_ends_with_the_last_epoch() -> None:
    def steps(start: Position, epochs: int) -> list[Work]:
        found: Iterator[Work] = works(start, steps_per_epoch=2, full_steps=2, steps_per_work=2, epochs=epochs)
        return list(found)

    assert steps(Position(0, 1), 2) == [Work(0, 1, 1), Work(1, 0, 2)]
    assert steps(Position(3, 0), 2) == [Work(3, 0, 2)]
