"""What faster data would gain, beside loops whose step and wait are known."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.core.errors import PlanError, ProcessError


def slow(batch: dict[str, Any]) -> dict[str, Any]:
    time.sleep(0.1)
    return batch


def test_it_tells_the_step_from_the_wait() -> None:
    """Batches come every 100 ms, and a step takes 5 ms, or some more where it waits for a CPU."""
    data = ps.from_arrays({"x": np.arange(4096)}).map(slow).batch(16)
    with ps.Loader(data, cpus=1) as loader:
        headspace = loader.headspace(steps=8)
        seen = []
        for batch in headspace:
            seen.append(batch["x"][0])
            time.sleep(0.005)
        assert len(seen) == 2 * (8 + 3)
        assert len(set(seen)) == 8 + 3, "real ones first"
        assert set(seen[11:]) == set(seen[:4])
        assert 0.005 <= headspace.room.without_data_s < headspace.room.with_data_s
        assert headspace.gain == headspace.room.with_data_s / headspace.room.without_data_s > 1.5
        assert str(headspace).startswith("at most ")
        assert loader.step == 11


def test_more_steps_than_an_epoch_has() -> None:
    with ps.Loader(ps.from_arrays({"x": np.arange(10)}).batch(5)) as loader:
        headspace = loader.headspace(steps=20)
        assert [len(batch["x"]) for batch in headspace] == [5] * 46
        assert headspace.gain > 0


def test_bad_use_is_said() -> None:
    loader = ps.Loader(ps.from_arrays({"x": np.arange(10)}).batch(5))
    for steps in (0, -1, 2.5, "3", None):
        with pytest.raises(PlanError, match="at least one step"):
            loader.headspace(steps=steps)  # type: ignore[arg-type]
    headspace = loader.headspace()
    assert str(headspace) == "headspace: not measured yet"
    for _ in headspace:
        break
    with pytest.raises(ProcessError, match="the loop has not ended"):
        _ = headspace.gain
    loader.close()
