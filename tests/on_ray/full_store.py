"""Object stores that are full, and may not spill to disk: the same batches, from actors or from this process; never a hang."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import ray

import penstock as ps
import penstock.ray
from support.ray_loaders import assert_all_same, begun_cluster, named_actors, wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.usefixtures("cluster"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:penstock.ray:UserWarning"),  # batches may be made here
]
STORE = 100 << 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes with small stores; actors are on the second one only."""
    memory = {"object_store_memory": STORE}
    made = begun_cluster({"num_cpus": 0, **memory, "_system_config": {"automatic_object_spilling_enabled": False}})
    made.add_node(num_cpus=2, **memory)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def large(megabytes: int, rows: int) -> ps.Dataset:
    """Batches of so many megabytes."""

    def made(batch: Any) -> Any:
        return {"x": batch["x"], "large": np.repeat(batch["x"][:, None], megabytes << 17, axis=1)}

    return ps.from_arrays({"x": np.arange(rows)}).map(made).batch(1)


@pytest.mark.timeout(150)
@pytest.mark.parametrize(("megabytes", "held_parts"), [(20, 0), (20, 3), (60, 2), (200, 0)])
def test_whatever_else_lies_in_the_stores(megabytes: int, held_parts: int) -> None:
    held = [ray.put(np.zeros(STORE // 4, np.uint8)) for _ in range(held_parts)]
    with (
        ps.Loader(large(megabytes, 8)) as here,
        penstock.ray.Loader(large(megabytes, 8), workers=2, compare_every=None) as there,
    ):
        assert_all_same(here, there)
    del held
    assert wait_until(lambda: not named_actors())


@pytest.mark.timeout(150)
def test_a_plan_whose_data_has_no_room_in_the_store() -> None:
    data = ps.from_arrays({"x": np.arange(STORE // 4).reshape(-1, 64)}).batch(1 << 17)
    with ps.Loader(data) as here, penstock.ray.Loader(data, workers=1) as there:
        assert_all_same(here, there)
    assert wait_until(lambda: not named_actors())
