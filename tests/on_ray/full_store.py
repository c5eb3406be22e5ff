"""Where Ray's object store is full and does not spill to disk, less is on its way, and at last batches are made here: the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import ray

import penstock as ps
import penstock.ray
from penstock.ray import window
from support.ray_loaders import assert_all_same, begun_cluster, source_of

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning"
)


@pytest.fixture(scope="module", autouse=True)
def one_node() -> Iterator[Any]:
    settings = {"automatic_object_spilling_enabled": False, "object_store_full_delay_ms": 100}
    made = begun_cluster({"num_cpus": 2, "object_store_memory": 80 << 20, "_system_config": settings})
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def large(rows: int, megabytes: int) -> ps.Dataset:
    def grown(batch: Any) -> Any:
        return {"x": batch["x"], "large": np.repeat(batch["x"][:, None], megabytes << 17, axis=1)}

    return ps.from_arrays({"x": np.arange(rows)}).map(grown).batch(1)


def test_the_window_shrinks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "_SHARE", 10.0)  # as if others had taken the store
    data = large(24, 20)
    with ps.Loader(data) as here, penstock.ray.Loader(data, workers=2, compare_every=None) as there:
        assert_all_same(here, there)


def test_a_batch_that_has_no_room_at_all_is_made_here() -> None:
    data = large(4, 120)
    with ps.Loader(data) as here, penstock.ray.Loader(data, workers=1, compare_every=None) as there:
        with pytest.warns(match="batches are made in this process"):
            assert_all_same(here, there)
        assert source_of(there)._is_local
