"""Libraries within functions: torch computes in the thread that calls it, and the training loop's own number of threads stays."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import penstock as ps

torch = pytest.importorskip("torch")


def threads(batch: dict[str, Any]) -> dict[str, Any]:
    return {"x": batch["x"], "threads": np.full(len(batch["x"]), torch.get_num_threads())}


def found(workers: str, **options: Any) -> set[int]:
    plan = ps.from_arrays({"x": np.arange(40)}).map(threads, workers=workers).batch(4)
    with ps.Loader(plan, **options) as loader:
        return {int(number) for batch in loader for number in batch["threads"]}


@pytest.fixture
def _two_threads(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="libraries are found by Linux's list of them")
@pytest.mark.usefixtures("_two_threads")
def test_torch_has_one_thread_in_each_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found("thread", cpus=2) == {1}
    assert torch.get_num_threads() == 2
    with ps.Loader(ps.from_arrays({"x": np.arange(4)}).map(threads).batch(4)) as loader:
        assert loader.batch_at(0, 0)["threads"][0] == 2  # the caller's own thread
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert found("thread", cpus=2) == {2}


@pytest.mark.slow
@pytest.mark.usefixtures("_two_threads")
def test_torch_has_one_thread_in_a_process() -> None:
    assert found("process", cpus=1) == {1}
